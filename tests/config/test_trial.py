"""The identity of a trial: what changes it, and what must not."""

import pytest

from vitbench.config import DataSpec, ModelSpec, TimeSpec, TimeTrial, TrainSpec, TrainTrial


def trial(**changes: object) -> TrainTrial:
    base = {
        "kind": "train", "model": ModelSpec(), "data": DataSpec(), "train": TrainSpec(), "seed": 0, "device": "cpu",
        "data_identity": "cifar10:c58f30108f718f92",
    }  # fmt: skip
    return TrainTrial.model_validate({**base, **changes})


def test_what_does_not_change_the_images_does_not_change_the_id() -> None:
    here = trial(data=DataSpec(name="image_folder", path="/here"), data_identity="image_folder:1")
    there = trial(data=DataSpec(name="image_folder", path="/there", download=True), data_identity="image_folder:1")
    assert here.id == there.id
    assert here.id != trial(data=DataSpec(name="image_folder", path="/here"), data_identity="image_folder:2").id


@pytest.mark.parametrize(
    "change",
    [
        {"model": ModelSpec(depth=3)},
        {"model": ModelSpec(attention="batched")},
        {"train": TrainSpec(epochs=11)},
        {"data": DataSpec(validation_images=1)},
        {"seed": 1},
        {"device": "cuda"},
    ],
    ids=str,
)
def test_what_changes_the_result_changes_the_id(change: dict[str, object]) -> None:
    assert trial(**change).id != trial().id


def test_fields_at_their_default_are_left_out() -> None:
    """So a new field with a neutral default leaves old ids alone."""
    assert trial().canonical()["model"] == {}
    assert trial(model=ModelSpec(depth=6)).id == trial().id
    assert trial(model=ModelSpec(image_size=(32, 32))).id == trial().id


def test_the_least_sizes_of_a_component_hold_on_the_device_that_has_them() -> None:
    narrow = ModelSpec(attention="flex", dim=32, heads=4)
    reason = narrow.unsupported("cuda", "bfloat16", training=True)
    assert reason == 'attention "flex" needs a head_width of at least 16 on cuda, not 8'
    assert narrow.unsupported("cpu", "float32", training=False) is None
    assert ModelSpec(attention="flex", dim=64, heads=4).unsupported("cuda", "bfloat16", training=True) is None


def test_ids_are_the_same_in_every_version() -> None:
    """These two stand in records of released versions. A change here orphans every study: do not make it."""
    assert trial().id == "9e34a2fbc35bbfdbff1f"
    timed = TimeTrial(
        kind="time", model=ModelSpec(attention="batched"), protocol=TimeSpec(), device="cpu", dtype="float32",
        batch_size=64, mode="train",
    )  # fmt: skip
    assert timed.id == "4de6b35b975a57b43732"
