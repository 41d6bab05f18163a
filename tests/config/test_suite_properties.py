"""Any suite gives a plan or one readable error; an id depends on what is run, and on nothing else."""

import copy
import json
import math
import random
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.test_trial import trial
from tests.conftest import REPOSITORY
from vitbench.config import DataSpec, ModelSpec, SpecError, TimeSpec, TimeTrial, TrainSpec, TrainTrial, read_suite
from vitbench.config.suite_errors import SHOWN
from vitbench.data.catalog import DataError
from vitbench.runner.plan import plan

MAX_TRIALS = 500
SHIPPED = {path.stem: path.read_text(encoding="utf-8") for path in sorted((REPOSITORY / "ablations").glob("*.toml"))}


def toml(value: Any) -> str:
    """A value as TOML, tables inline: enough for what tomllib reads and for what a mutation puts in its place."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return json.dumps(value).replace("\x7f", "\\u007f")


def document(tables: dict[str, Any]) -> str:
    return "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in tables.items()) + "\n"


def outcome(text: str) -> str | None:
    """The error of a suite, None of one that can be planned. Anything else that is raised fails the test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.toml"
        path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
        try:
            plan(read_suite(path, max_trials=MAX_TRIALS), "cpu")
        except (SpecError, DataError) as error:
            return str(error)
    return None


def readable(message: str) -> bool:
    """Lines of bounded length and number, each of which names the file, but for those of a data set."""
    lines = message.splitlines()
    return 0 < len(lines) <= SHOWN + 1 and all(len(line) < 3000 for line in lines) and "Traceback" not in message


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from([10**30, -1, "sdpa", "pre"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["suite", "model", "axes", "data", "train", "time", "variants", "tune", "facts", "goals", "small", "x"]
)


def text_of(tables: dict[str, Any]) -> str:
    """The tables as a document; lone surrogates, which TOML has no way to write, left out."""
    return document(json.loads(json.dumps(tables, ensure_ascii=True).replace("\\ud", "\\u0d")))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_tables_give_a_plan_or_a_readable_error(tables: dict[str, Any]) -> None:
    message = outcome(text_of(tables))
    assert message is None or readable(message)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="[]{}=.,\"'#\n ax1-_e+", max_size=60))
def test_any_text_gives_a_plan_or_a_readable_error(text: str) -> None:
    message = outcome(text)
    assert message is not None and readable(message) and message.startswith("any.toml: ")


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key or index) of everything in a parsed file."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from places(value)


def changed(tables: dict[str, Any], how: str, where: random.Random, value: Any) -> dict[str, Any]:
    """A real suite with one thing wrong, or not."""
    mutant = copy.deepcopy(tables)
    container, key = where.choice(list(places(mutant)))
    if how == "value":
        container[key] = value
    elif how == "delete":
        del container[key]
    elif how == "double" and isinstance(container, list):
        container.append(container[key])
    elif isinstance(container, dict):
        container[f"{key}x" if how == "rename" else str(value)] = container.pop(key)
    return mutant


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(SHIPPED)), st.sampled_from(["value", "delete", "rename", "move", "double"]), VALUES,
    st.integers(0, 10**6),
)  # fmt: skip
def test_a_real_suite_with_one_mistake_gives_a_plan_or_a_readable_error(
    name: str, how: str, value: Any, seed: int
) -> None:
    mutant = changed(tomllib.loads(SHIPPED[name]), how, random.Random(seed), value)
    message = outcome(text_of(mutant))
    assert message is None or readable(message)


def test_the_writer_of_these_tests_writes_what_it_was_given() -> None:
    for text in SHIPPED.values():
        assert tomllib.loads(document(tomllib.loads(text))) == tomllib.loads(text)


def ids(text: str) -> set[str]:
    """Ids of a suite's trials, all implementations planned: else the first in the order stands for the others."""
    each = ["train.implementations=all"] if "train" in tomllib.loads(text) else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.toml"
        path.write_text(text, encoding="utf-8")
        return {planned.id for planned in plan(read_suite(path, each), "cpu").trials}


PLANNED = ("components", "components-full", "planted", "model-timing", "attention-timing")
"""Shipped suites whose data can be identified without being there."""


def shuffled(tree: Any, order: random.Random) -> Any:
    """Tables with their keys in another order. Arrays keep theirs: it may mean something."""
    if isinstance(tree, list):
        return [shuffled(item, order) for item in tree]
    if not isinstance(tree, dict):
        return tree
    keys = order.sample(list(tree), len(tree))
    return {key: shuffled(tree[key], order) for key in keys}


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(PLANNED), st.randoms(use_true_random=False))
def test_ids_do_not_depend_on_the_order_of_keys_tables_and_axes(name: str, order: random.Random) -> None:
    tables = tomllib.loads(SHIPPED[name])
    mixed = shuffled(tables, order)
    for axis, values in mixed.get("axes", {}).items():
        if isinstance(values, list):
            mixed["axes"][axis] = order.sample(values, len(values))
    assert ids(document(mixed)) == ids(SHIPPED[name])


class LaterModel(ModelSpec):
    """A model of a later version: one more field, and its default changes nothing."""

    experts: int = 1


class LaterRecipe(TrainSpec):
    """A recipe of a later version."""

    mixup: float = 0.0


def test_ids_do_not_depend_on_a_new_field_with_a_neutral_default() -> None:
    before, later = trial(model=ModelSpec(depth=3)), trial(model=LaterModel(depth=3))
    assert isinstance(later.model, LaterModel) and later.id == before.id
    assert trial(model=LaterModel(depth=3, experts=2)).id != before.id, "another value is another trial"
    recipe = before.model_copy(update={"train": LaterRecipe()})
    assert recipe.id == before.id != before.model_copy(update={"train": LaterRecipe(mixup=0.1)}).id


GOLDEN = {
    "train, all at its default": "9e34a2fbc35bbfdbff1f",
    "train, all else": "ad188c068d1c8787b087",
    "time, a model": "03ae32ac108a57f8ce55",
    "time, attention's core": "f2945ac1c3e4b7be25a0",
}


def golden(name: str) -> TrainTrial | TimeTrial:
    def timed(level: str, **model: Any) -> TimeTrial:
        return TimeTrial.model_validate(
            {"kind": "time", "level": level, "model": ModelSpec(**model), "protocol": TimeSpec(rounds=5),
             "device": "cuda", "dtype": "bfloat16", "batch_size": 512, "mode": "inference"}
        )  # fmt: skip

    return {
        "train, all at its default": trial,
        "train, all else": lambda: TrainTrial(
            kind="train",
            model=ModelSpec(
                patching="einops", attention="batched", norm="post", positions="none", mlp="swiglu", pooling="mean",
                image_size=(32, 64), patch_size=8, num_classes=100, dim=64, depth=2, heads=8, mlp_ratio=2.0,
                qkv_bias=False, dropout=0.1, drop_path=0.05, init_std="fan_in",
            ),
            data=DataSpec(name="synthetic", resize=(32, 64), train_images=500, validation_images=50, image_seed=7),
            train=TrainSpec(epochs=3, batch_size=32, learning_rate=3e-4, weight_decay=0.05, warmup_epochs=1.0,
                            label_smoothing=0.1, clip_norm=1.0, crop_padding=4, flip=True, precision="bfloat16"),
            seed=2**64 - 1, device="cuda", data_identity="synthetic:2",
        ),
        "time, a model": lambda: timed("model", attention="triton"),
        "time, attention's core": lambda: timed("attention_core", attention="flex", image_size=224, patch_size=16),
    }[name]()  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_ids_are_pinned(name: str) -> None:
    """A change here orphans the results of every study: do not make it. See also tests/config/test_trial.py."""
    assert golden(name).id == GOLDEN[name]
