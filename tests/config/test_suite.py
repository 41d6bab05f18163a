"""Suites: what is accepted, and what a user reads when it is not; more of that in tests/test_bad_input_suites.py."""

from pathlib import Path

import pytest

from tests.bad_input import suite_file
from tests.conftest import REPOSITORY
from vitbench import environment
from vitbench.config import SpecError, read_suite
from vitbench.config.base import STORED
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import DataSpec, Device
from vitbench.config.suite import ExpandedSuite, in_label

MINIMAL = """
[suite]
name = "t"
question = "?"
[model]
dim = 32
depth = 2
[train]
epochs = 1
"""


def read(
    folder: Path, text: str, *overrides: str, small: bool = False, device: Device | None = None
) -> ExpandedSuite:  # fmt: skip
    return read_suite(folder / suite_file(folder, base=text), overrides, small=small, device=device)


def messages(folder: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(folder, text, *overrides)
    return caught.value.messages


@pytest.mark.parametrize("path", sorted((REPOSITORY / "ablations").glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_suites_are_read_and_say_what_they_are_for(path: Path) -> None:
    suite = read_suite(path)
    assert suite.info.name == path.stem
    assert suite.info.question.endswith("?") and suite.info.cost and suite.info.expected
    assert suite.cells and not suite.notices


def test_the_default_suite_is_the_full_factorial() -> None:
    suite = read_suite(REPOSITORY / "ablations" / "components.toml")
    assert len(suite.cells) == 48 == len({c.model for c in suite.cells})
    assert {c.label for c in suite.cells} >= {"conv · per_head · pre · learned", "einops · triton · post · none"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MINIMAL + "[model]\n", "line"),
        ("a = 1\na = 2\n", "line 2"),
        ("[suite\n", "line 1"),
        ("", "suite.toml: suite: the table is required"),
        ('[suite]\nname = "t"\nquestion = "?"\n', "train: is required, or [time]"),
    ],
)
def test_broken_files_say_where(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in "\n".join(messages(tmp_path, text))


def test_variants_are_the_base_with_some_fields_replaced(tmp_path: Path) -> None:
    text = (
        MINIMAL + '[[variants]]\nname = "one head"\nset.heads = 1\nset.train.epochs = 2\n[[variants]]\nname = "base"\n'
    )
    one, base = read(tmp_path, text).cells
    assert (one.label, one.model.heads, base.model.heads) == ("one head", 1, 4)
    assert one.train is not None and base.train is not None
    assert (one.train.epochs, base.train.epochs) == (2, 1)


def test_an_axis_of_tables_moves_several_fields_at_once(tmp_path: Path) -> None:
    suite = read(tmp_path, MINIMAL + """
[axes]
attention = ["sdpa", "batched"]
[[axes.shape]]
name = "short"
set = { image_size = 32, dim = 64, time.batch_sizes = [16] }
[[axes.shape]]
name = "long"
set = { image_size = 64, heads = 2 }
[time]
batch_sizes = [4]
[time.cpu]
iterations = 3
""")  # fmt: skip
    assert suite.axes == {"attention": ("sdpa", "batched"), "shape": ("short", "long")}
    assert [c.label for c in suite.cells][:2] == ["sdpa · short", "sdpa · long"]
    short, long = suite.cells[:2]
    assert short.axes == {"attention": "sdpa", "shape": "short"}
    assert (short.model.dim, short.model.image_size, long.model.image_size, long.model.heads) == (64, 32, 64, 2)
    assert short.time is not None and long.time is not None
    assert (short.time.on("cpu").batch_sizes, long.time.on("cpu").batch_sizes) == ((16,), (4,))
    assert (short.time.on("cpu").iterations, short.time.on("cuda").iterations) == (3, 20)
    assert short.time.on("cpu").cpu is None, "what was for the device is in its place"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[axes.dim]]\nname = "a"\nset = {}', "axes.dim: is a field; an axis of tables needs a name of its own"),
        ('[[axes.s]]\nname = "a"\n[[axes.s]]\nname = "a"', 'axes.s[2].name: "a" is the name of another value'),
        ('[[axes.s]]\nname = "a"\nset = { dmi = 3 }', 'axes.s[1].set: "dmi": unknown key; did you mean "dim"?'),
        ("[[axes.s]]\nset = { dim = 3 }", "axes.s[1].name"),
        ('[axes]\n"time.cpu" = [1]', '"time.cpu": unknown key'),
        ("[time.cpu]\nlevels = [1]", "time.cpu.levels: unknown key"),
        ('[time]\nlevels = ["modle"]', "time.levels"),
    ],
)
def test_what_is_wrong_with_it_is_said(tmp_path: Path, text: str, message: str) -> None:
    text = f"{MINIMAL}\n{text}\n" + ("" if "[time" in text else "[time]\n")
    assert message in "\n".join(messages(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "key", "by"),
    [
        ('[axes]\nattention = ["sdpa", "batched"]\n', "model.attention", "axes.attention"),
        ('[axes]\n"train.epochs" = [1, 2]\n', "train.epochs", "axes.train.epochs"),
        ('[[axes.s]]\nname = "a"\nset.dim = 32\n[[axes.s]]\nname = "b"\nset.dim = 48\n', "model.dim", "axes.s"),
        ('[[variants]]\nname = "a"\nset.train.epochs = 2\n', "train.epochs", "variants"),
        ('[data]\nvalidation_images = 9\n[tune]\ntrain.learning_rate = [0.1, 1.0]\n',
         "train.learning_rate", "tune"),
    ],
)  # fmt: skip
def test_a_value_that_every_cell_replaces_is_refused(tmp_path: Path, text: str, key: str, by: str) -> None:
    value = {"model.attention": '"mha"', "model.dim": "64", "train.epochs": "7"}.get(key, "0.5")
    assert messages(tmp_path, MINIMAL + text, f"{key}={value}") == [
        f'--set "{key}={value}": has no effect, since it is set in every cell by {by}'
    ]
    some = text.replace("set.dim = 32", "set.depth = 1") + '[[variants]]\nname = "z"\nset.pooling = "mean"\n'
    if by != "tune":  # one cell takes it; where that is left out, none does
        mixed = read(tmp_path, MINIMAL + some, f"{key}={value}")
        with pytest.raises(SpecError, match="has no effect"):
            read_suite(tmp_path / "suite.toml", [f"{key}={value}"], only=[mixed.cells[-2].label])


def test_a_timing_value_of_the_command_line_holds_on_every_device(tmp_path: Path) -> None:
    text = MINIMAL + "[time]\nrounds = 5\n[time.cpu]\nrounds = 3\niterations = 7\n"
    for overrides, expected in (
        ((), (3, 7)),
        (("time.rounds=2",), (2, 7)),
        (("time.rounds=2", "time.cpu.rounds=4"), (4, 7)),
    ):
        table = read(tmp_path, text, *overrides).cells[0].time
        assert table is not None and (table.on("cpu").rounds, table.on("cpu").iterations) == expected


def test_other_images_by_name_leave_out_what_the_file_takes_of_its_own(tmp_path: Path) -> None:
    text = MINIMAL + "[data]\nsubset = 100\n"
    assert read(tmp_path, text).data.subset == 100
    assert read(tmp_path, text, "data.name=synthetic").data.subset is None
    given = read(tmp_path, text, "data.path=photos", "data.name=image_folder").data
    assert (given.name, given.path, given.subset) == ("image_folder", "photos", None)


@pytest.mark.parametrize(("flags", "count"), [("fma avx2", 1), ("avx512f avx512_bf16", 0)])
def test_a_cpu_without_bfloat16_is_told_of(
    flags: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
    monkeypatch.setattr(environment, "CPU_FILE", tmp_path / "cpuinfo")
    half = "train.precision=bfloat16"
    notices = read(tmp_path, MINIMAL, half, device="cpu").notices
    assert ["1 cell in bfloat16, for which this CPU has no instructions" in text for text in notices] == [True] * count
    assert read(tmp_path, MINIMAL, device="cpu").notices == read(tmp_path, MINIMAL, half).notices == ()


ROPE = '[axes]\npositions = ["learned", "rope_2d", {name = "rope_2d", base = 10000}, {base = 100, name = "rope_2d"}]\n'


def test_a_component_has_options_as_a_table_as_text_and_as_an_axis(tmp_path: Path) -> None:
    of_table = read(tmp_path, MINIMAL + ROPE)
    assert [cell.label for cell in of_table.cells] == ["learned", "rope_2d", "rope_2d(base=10000)"]
    assert of_table.notices == ("axes.positions: 1 repeated value left out",), "100 is the default"
    base = read(tmp_path, MINIMAL, 'model.positions={name = "rope_2d", coordinates = "unit", base = 50}')
    assert base.cells[0].model.positions == "rope_2d(base=50, coordinates=unit)"
    assert read(tmp_path, MINIMAL, "model.positions=rope_2d(coordinates=unit, base=50)").cells[0].model == (
        base.cells[0].model
    )
    of_axis = read(tmp_path, MINIMAL + '[axes]\n"positions.base" = [100, 10000]\n', "model.positions=rope_2d(base=7)")
    assert {cell.label: cell.model.positions for cell in of_axis.cells} == {
        "base=100": "rope_2d", "base=10000": "rope_2d(base=10000)",
    }  # fmt: skip
    for path in ("positions", '"model.positions"'):
        of_variant = f'[[variants]]\nname = "v"\nset.{path} = {{name = "rope_2d", base = 9}}\n'
        assert read(tmp_path, MINIMAL + of_variant).cells[0].model.positions == "rope_2d(base=9)"


def test_text_with_an_option_at_its_default_is_the_same_value(tmp_path: Path) -> None:
    axes = '[axes]\npositions = ["rope_2d(base=100)", "learned", "rope_2d", "rope_2d(base=9.0)", "rope_2d(base=9)"]\n'
    suite = read(tmp_path, MINIMAL + axes)
    assert [cell.label for cell in suite.cells] == ["rope_2d", "learned", "rope_2d(base=9)"]
    assert suite.notices == ("axes.positions: 2 repeated values left out",)


def test_options_of_one_name_are_told_apart_in_labels() -> None:
    names = ("norm_layer.eps", "residual.start", "mlp.start")
    assert in_label("residual.start", 0.1, names) == "residual.start=0.1"
    assert in_label("norm_layer.eps", 1e-6, names) == "eps=1e-06"


def test_a_combination_with_a_component_that_has_no_such_option_is_excluded(tmp_path: Path) -> None:
    axes = '[axes]\nresidual = ["plain", "layerscale"]\n"residual.start" = [0.1, 1e-4]\n'
    suite = read(tmp_path, MINIMAL + axes)
    assert {cell.label: cell.model.residual for cell in suite.cells} == {
        "layerscale · start=0.1": "layerscale(start=0.1)", "layerscale · start=0.0001": "layerscale",
    }  # fmt: skip
    assert dict(suite.excluded)["plain · start=0.1"] == 'residual "plain(start=0.1)" has no option start'


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ('model.positions={name = "rope_2d", bass = 9}', '"rope_2d" has no option "bass"; did you mean "base"?'),
        ("model.positions=rope_2d(base=0)", "model.positions: positions.base must be a number from 1 to 1e+06, got 0"),
        ("model.positions=rope_2d(coordinates=units)", 'must be patches or unit, got units; did you mean "unit"?'),
        ("model.positions=learned(base=9)", 'model.positions: positions "learned" has no option "base"'),
        ('model.positions={name = "rope", base = 9}', '"rope" is not a component of this slot; did you mean'),
        ("axes.positions.base=[0]", "axes.positions.base: must be a number from 1 to 1e+06, got 0"),
        ('axes.positions.base=["a"]', "axes.positions.base: must be a number from 1 to 1e+06, got a"),
        ("axes.positions.bass=[9]", 'no component of positions has such an option; did you mean "base"?'),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named_with_what_is_allowed(tmp_path: Path, override: str, expected: str) -> None:
    assert expected in messages(tmp_path, MINIMAL, override)[0]


def test_a_runtime_is_not_compiled_once_more(tmp_path: Path) -> None:
    """By either table: a whole suite, or the cells of an axis that have another runtime than PyTorch's own."""
    timed = MINIMAL.replace("[train]\nepochs = 1\n", "[time]\ncompile = true\n")
    message = 'time.compile: torch.compile and runtime "openvino" cannot both run a model'
    assert message in messages(tmp_path, timed, "model.runtime=openvino")[0]
    (problem,) = messages(tmp_path, timed + '[axes]\nruntime = ["eager", "openvino"]\n')
    assert problem.startswith(f"suite.toml: cell openvino: {message}")
    assert read(tmp_path, timed).cells and read(tmp_path, timed, "model.runtime=openvino", "time.compile=false").cells


def test_sizes_of_two_numbers_are_read_back_from_a_record() -> None:
    data = DataSpec(name="synthetic", resize=(16, 32))
    model = ModelSpec(image_size=(16, 32), patch_size=(4, 8))
    assert DataSpec.model_validate_json(data.model_dump_json(), context=STORED) == data
    assert ModelSpec.model_validate_json(model.model_dump_json(), context=STORED) == model
