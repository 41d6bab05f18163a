"""Masked pre-training: what is hidden, what is learnt, what is handed on, and that an interruption changes nothing."""

import base64
import io
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tests.components.cases import COMPONENTS, device_for, small
from tests.small import DATA, MODEL, recipe_with, train_trial
from tests.training.stages import CPU, changes_nothing, results, resumed, silent
from vitbench import registry
from vitbench.config import DataSpec, ModelSpec, TrainSpec
from vitbench.config.trial import TrainTrial
from vitbench.data.batches import Batches
from vitbench.data.load import splits
from vitbench.devices import PeakMemory
from vitbench.model.build import build_model
from vitbench.model.masked import MaskedAutoencoder, masked_flops
from vitbench.model.vit import VisionTransformer
from vitbench.runner.cost import preparation_flops
from vitbench.training import loop
from vitbench.training.checkpoint import Checkpointing, Interrupted
from vitbench.training.loop import train
from vitbench.training.pretraining import pretrain, recipe_of
from vitbench.training.probe import Probe
from vitbench.training.stage import StageSetting
from vitbench.training.stepper import Diverged, Stepper

RECIPE = recipe_with(pretrain_epochs=2, decoder_dim=32)


def recipe(**changes: Any) -> TrainSpec:
    return TrainSpec.model_validate({**RECIPE.model_dump(), **changes})


def trial(model: ModelSpec = MODEL, seed: int = 0, **changes: Any) -> TrainTrial:
    return train_trial(model=model, train=recipe(**changes), seed=seed)


def images(count: int = 6) -> torch.Tensor:
    data = splits(DATA, MODEL, 0)
    return data.normalise(data.train.pixels[:count])


def orders(patches: int) -> torch.Tensor:
    return torch.rand(6, patches, generator=torch.Generator().manual_seed(0)).argsort(dim=1)


def test_each_image_of_each_epoch_has_an_order_of_its_patches_and_dropout_has_no_part_in_it() -> None:
    data = splits(DATA, MODEL, 0)
    one, other = (Batches(data, TrainSpec(batch_size=50), 0, patches=16) for _ in range(2))
    torch.manual_seed(5)  # what dropout draws from
    first, second = ([batch.patches for batch in one.epoch(number)] for number in (0, 1))
    again = [batch.patches for batch in other.epoch(0)]
    rows = torch.cat([each for each in first if each is not None])
    assert (rows.sort(dim=1).values == torch.arange(16)).all() and len(rows) == len(data.train)
    assert len({tuple(row) for row in rows.tolist()}) == len(rows), "each image has its own"
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True) if a is not None and b is not None)
    assert first[0] is not None and second[0] is not None and not torch.equal(first[0], second[0])
    assert one.digest() != Batches(data, TrainSpec(batch_size=50), 1, patches=16).digest()


ROTARY = [
    name
    for name in registry.names("attention")
    if "rotary" in registry.facts("attention", name).offers and not registry.facts("attention", name).every_patch
]
CASES = [
    *(
        pytest.param(small(slot, name), id=f"{slot}-{name}")
        for slot, name in COMPONENTS
        if not registry.facts(slot, name).every_patch
    ),
    *(
        pytest.param(small("attention", n).model_copy(update={"positions": "rope_2d"}), id=f"rotary-{n}")
        for n in ROTARY
    ),
    *(
        pytest.param(MODEL.model_copy(update={"registers": 3, "pooling": pooling, "positions": n}), id=f"registers-{n}")
        for pooling, n in (("cls", "learned"), ("mean", "rope_2d"))
    ),
]


@pytest.mark.parametrize("spec", CASES)
def test_what_is_hidden_moves_nothing(spec: ModelSpec) -> None:
    """Over all components, and all attentions that turn by position: the encoder is given the visible patches alone."""
    if (device := device_for(spec, training=True)).type != "cpu":
        pytest.skip(f"runs on {device.type} alone")
    model = build_model(spec, seed=0).eval()
    autoencoder = MaskedAutoencoder(model, RECIPE, seed=1)
    seen = orders(spec.patches)[:, : autoencoder.visible]
    assert seen.shape == (6, spec.patches // 4)
    given = images()
    mask = _mask(autoencoder, seen, given)
    with torch.no_grad():
        predicted = autoencoder.predict(given, seen)
        assert torch.isfinite(predicted).all() and predicted.shape == (6, spec.patches, 3 * 16 * 16 // spec.patches)
        if spec.patching not in ("conv_tokenizer", "conv_stem", "resnet_stem"):  # whose patches overlap
            torch.testing.assert_close(autoencoder.predict(given * mask, seen), predicted)
        assert not torch.equal(autoencoder.predict(given * (1 - mask), seen), predicted)


def _mask(autoencoder: Any, seen: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """(B, 1, 16, 16), 1 where a pixel's patch is seen."""
    side = math.isqrt(autoencoder.patches)
    patches = torch.zeros(len(given), 1, side, side)
    patches[torch.arange(len(given))[:, None], 0, seen // side, seen % side] = 1.0
    return patches.repeat_interleave(16 // side, 2).repeat_interleave(16 // side, 3)


def test_the_loss_is_that_of_hidden_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    autoencoder = MaskedAutoencoder(build_model(MODEL, seed=0), RECIPE, seed=1)
    given, order = images(), orders(16)
    seen = order[:, : autoencoder.visible]
    wanted, mean, std = autoencoder.targets(given)
    assert wanted.mean(dim=-1).abs().max() < 1e-5 and (wanted.std(dim=-1) - 1).abs().max() < 1e-3
    hidden = torch.ones(6, 16, 1).scatter(1, seen[..., None], 0.0)
    for where, loss in ((hidden, 4.0), (1.0 - hidden, 0.0)):
        monkeypatch.setattr(autoencoder, "predict", lambda *_, where=where: wanted + 2.0 * where)
        assert autoencoder(given, order).item() == pytest.approx(loss, abs=1e-6)
    whole, mask = autoencoder.reconstruct(given, order)
    assert torch.equal(mask, _mask(autoencoder, seen, given).expand_as(given))
    torch.testing.assert_close(whole, given, atol=1e-4, rtol=1e-4)  # what was seen is kept, the rest is predicted
    assert mean.shape == std.shape == (6, 16, 1)


def pretrained(seed: int = 0, images: DataSpec = DATA, **changes: Any) -> tuple[VisionTransformer, Any]:
    asked = trial(seed=seed, **changes)
    data, model = splits(images, MODEL, seed), build_model(MODEL, seed)
    return model, pretrain(model, StageSetting(asked, data, CPU, PeakMemory(CPU), silent, None))


def test_its_loss_falls_and_it_moves_the_encoder_and_not_the_head(lossless: Path) -> None:
    of_cifar = DataSpec(name="image_folder", path=str(lossless), train_images=1000, test_images=10, resize=16)
    model, done = pretrained(images=of_cifar, pretrain_epochs=8, pretrain_learning_rate=3e-3)
    losses = [epoch.train_loss for epoch in done.epochs]
    assert losses[-1] < 0.9 * losses[0], losses
    assert all(epoch.train_accuracy_pct is None for epoch in done.epochs)
    fresh = build_model(MODEL, seed=0).state_dict()
    moved = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, fresh[name])}
    assert not any(name.startswith("head.") for name in moved)
    assert {name for name in fresh if name.startswith(("patching.", "encoder."))} <= moved


def test_a_record_tells_of_it() -> None:
    lines: list[str] = []
    values, plain = train(trial(), CPU, lines.append), train(trial(pretrain_epochs=0), CPU, silent)
    assert [line.partition(":")[0] for line in lines][:2] == ["pre-training, epoch 1/2", "pre-training, epoch 2/2"]
    assert len(values.pretraining) == 2 and len(values.epochs) == 1
    assert values.test_loss != plain.test_loss and values.batches_digest == plain.batches_digest
    assert values.preparation_flops == 3 * masked_flops(MODEL, RECIPE) * 160 * 2 > 0
    assert values.parameters == plain.parameters, "the decoder is thrown away"
    assert plain.pretraining == () and plain.reconstructions is None
    assert values.reconstructions is not None
    with Image.open(io.BytesIO(base64.b64decode(values.reconstructions))) as sheet:
        assert sheet.format == "PNG" and sheet.size == (8 * 98, 3 * 98), "16 pixels, six times as large, and a margin"


@pytest.mark.parametrize("ratio", [0.75, 0.4])
@pytest.mark.parametrize("changes", [{"patch_size": 8}, {"patch_size": 2, "depth": 6}, {"patching": "conv_stem"}])
def test_the_closed_form_of_pre_training_is_what_its_model_takes(changes: dict[str, object], ratio: float) -> None:
    """Patches are embedded before they are hidden, and attention is quadratic."""
    model = ModelSpec.model_validate({"dim": 32, "depth": 2, "heads": 2, **changes})
    asked = recipe(mask_ratio=ratio, pretrain_epochs=1)
    assert preparation_flops(model, asked, 100) == pytest.approx(300 * masked_flops(model, asked), rel=2e-3)


@pytest.mark.parametrize(("ratio", "visible"), [(0.01, 15), (0.5, 8), (0.75, 4), (0.99, 1)])
def test_at_least_one_patch_is_seen_and_one_is_told(ratio: float, visible: int) -> None:
    assert MaskedAutoencoder(build_model(MODEL, 0), recipe(mask_ratio=ratio), seed=0).visible == visible


def test_one_patch_is_refused() -> None:
    whole = build_model(MODEL.model_copy(update={"patch_size": 16}), 0)
    with pytest.raises(ValueError, match="two patches"):
        MaskedAutoencoder(whole, RECIPE, seed=0)


def test_nothing_of_labels_is_in_its_recipe() -> None:
    asked = recipe(label_smoothing=0.1, mixup=0.8, cutmix=1.0, erasing=0.5, ema=0.9, frozen=True, crop_padding=2)
    stage = recipe_of(asked)
    assert (stage.epochs, stage.learning_rate, stage.crop_padding) == (2, asked.pretrain_learning_rate, 2)
    assert not any((stage.label_smoothing, stage.mixup, stage.cutmix, stage.erasing, stage.ema, stage.frozen))


def test_a_probe_trains_the_head_alone() -> None:
    asked = trial(MODEL.model_copy(update={"dropout": 0.5}), frozen=True, pretrain_epochs=0, epochs=3)
    fitted = loop.fit([asked], CPU, silent)
    fresh = build_model(asked.model, 0).state_dict()
    probe = fitted.stepper.module
    assert isinstance(probe, Probe)
    state = probe.model.state_dict()
    assert {name for name in fresh if not torch.equal(fresh[name], state[name])} == {"head.weight", "head.bias"}
    assert not probe.train().model.training and probe.norm.training, "features are those by which it is judged"
    values = train(asked, CPU, silent)
    assert values.parameters == sum(p.numel() for p in build_model(MODEL, 0).parameters())


def test_a_probe_sees_features_on_one_scale() -> None:
    """A factor of the weights before it changes nothing: starts are compared at one learning rate."""
    model = build_model(MODEL, 0)
    probe, given = Probe(model), images(32)
    answers = probe.train()(given)
    model.encoder.final_norm.weight.data.mul_(50.0)
    torch.testing.assert_close(probe.train()(given), answers, atol=1e-3, rtol=1e-3)
    assert not torch.allclose(probe.eval()(given), answers, atol=1e-2), "judged by what it has seen of all batches"


def test_an_interruption_in_either_stage_changes_nothing(tmp_path: Path) -> None:
    """8 steps without labels, then 4 with; steps count over both."""
    changes_nothing(trial(), (5, 9), tmp_path)


def test_an_interrupted_probe_clips_its_gradients_as_it_does_uninterrupted(tmp_path: Path) -> None:
    """None are left of the stage before, which the second process has not trained."""
    probe = trial(MODEL.model_copy(update={"init_std": "fan_in"}), frozen=True, clip_norm=0.5, learning_rate=0.1)
    assert results(resumed(probe, 9, tmp_path / "trial.safetensors")) == results(train(probe, CPU, silent))


def test_a_stage_that_is_over_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no save was due in it, as in all of a minute."""
    asked, path, stages = trial(), tmp_path / "trial.safetensors", list[str]()
    real = Stepper.step

    def counted(self: Stepper, *rest: Any) -> Any:
        stages.append(type(self.module).__name__)
        if len(stages) == 10:
            plan.save_now.ask()
        return real(self, *rest)

    monkeypatch.setattr(Stepper, "step", counted)
    plan = Checkpointing(path, every_s=1e6)
    with pytest.raises(Interrupted):
        train(asked, CPU, silent, plan)
    values = train(asked, CPU, silent, Checkpointing(path, every_s=1e6))
    assert stages == ["MaskedAutoencoder"] * 8 + ["VisionTransformer"] * 4
    assert values.resumed_at == (2,) and values.preparation_resumed_at == (8,)


def test_a_lost_stage_is_named() -> None:
    with pytest.raises(Diverged, match="pre-training: loss not finite"):
        train(trial(pretrain_learning_rate=1e12, clip_norm=0.0), CPU, silent)


def test_a_probe_and_what_is_fine_tuned_begin_with_the_same() -> None:
    assert recipe_of(recipe(weight_decay=0.0, frozen=True)) == recipe_of(recipe(weight_decay=0.1))


def test_a_probe_takes_a_last_batch_of_one_image() -> None:
    asked = train_trial(
        train=recipe(frozen=True, pretrain_epochs=0, batch_size=50),
        data=DATA.model_copy(update={"train_images": 101, "validation_images": 0}),
    )
    assert math.isfinite(train(asked, CPU, silent).test_loss)


def test_seeds_with_it_run_one_by_one_and_say_why() -> None:
    assert "masked" in (trial(ensemble_seeds=True).ensemble_problem() or "")
    assert "head" in (trial(ensemble_seeds=True, frozen=True, pretrain_epochs=0).ensemble_problem() or "")
