"""Bad suites: what a user sees of each, row by row (I1 to I12). Nothing of any is run or written."""

import time
from pathlib import Path

import pytest

from tests.bad_input import files_of, refused_by_process, refused_here, suite_file
from tests.runner.runs import here, sets
from tests.small import SUITE
from vitbench import registry
from vitbench.config import SpecError, read_suite
from vitbench.config.suite_errors import SHOWN
from vitbench.config.toml import MAX_DEPTH, MAX_SUITE_BYTES
from vitbench.runner.plan import plan

DOTTED = ".".join("a" * 20_000)


def error(folder: Path, *overrides: str, text: str = "") -> str:
    """What `read_suite` says of the small suite with some values replaced and some lines added."""
    with pytest.raises(SpecError) as caught:
        read_suite(folder / suite_file(folder, text), overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.depht=1", 'model.depht: unknown key; did you mean "depth"?'),
        ("trian.epochs=1", 'trian: unknown key; did you mean "train"?'),
        ("axes.train.epocs=[3]", 'axes.train.epocs: "train.epocs": unknown key; did you mean "train.epochs"?'),
        ("axes.train.seeds=[3]", "axes.train.seeds: all cells of a study have the same train.seeds: set it in [train]"),
        ("axes.epochs=[3]", 'axes.epochs: "epochs": unknown key; did you mean "train.epochs"?'),
        ("time.cpu.iteration=3", 'time.cpu.iteration: unknown key; did you mean "iterations"?'),
        (
            'axes.attention=["sdpa", "spda"]',
            'axes.attention: "spda" is not a component of this slot; did you mean "sdpa"?; '
            f"known: {', '.join(registry.names('attention'))}",
        ),
        ('model.depth="8"', 'model.depth: must be an integer, got "8"'),
        ("model.depth=8.0", "model.depth: must be an integer, got number 8.0"),
        ("model.depth=[8]", "model.depth: must be an integer, got array (8,)"),
        ("model.depth=1979-05-27", "model.depth: must be an integer, got date 1979-05-27"),
        ("model.depth={ x = 1 }", "model.depth: must be an integer, got table {'x': 1}"),
        ("axes.depth=[1, true]", "axes.depth: must be an integer, got boolean true"),
        ("axes.depth=3", "axes.depth: must be an array of values, got integer 3"),
        ("train.seeds=[]", "train.seeds: must be an array of 1 or more values"),
        ("train.seeds=-3", "train.seeds: must be > 0, got integer -3"),
        ("train.optimizer=adamm", 'train.optimizer: "adamm" is not allowed; did you mean "adam"?'),
        ("model.image_size=[32]", "model.image_size: must be"),
        ("model.preset=vit-x", 'model.preset: "vit-x" is no preset; did you mean "vit-s/16"?'),
        ('axes.data.name=["cifar10", "synthetic"]', "axes.data.name: a study never mixes data"),
        ("model.depth=0", "model.depth: must be > 0, got integer 0"),
        ("model.mlp_ratio=0.01", "model.mlp_ratio: 0.01 of dim "),
        ("train.decoder_depth=0", "train.decoder_depth: must be >= 1, got integer 0"),
        ("model.depth=100000000000000000000000", "model.depth: must be <= 1024, got integer 100000000000000000000000"),
        ("model.dropout=1.5", "model.dropout: must be < 1.0, got number 1.5"),
        ("train.seeds=[18446744073709551616]", "train.seeds: must be < 18446744073709551616"),
        ("train.learning_rate=inf", "train.learning_rate: must be finite, got number inf"),
        ("train.learning_rate=nan", "train.learning_rate: must be finite, got number nan"),
        ("model.heads=5", "model.heads: 5 does not divide dim 32"),
        ("model.patch_size=3", "model.patch_size: 3 does not divide the image height 16 and 3 does not divide the"),
    ],
)
def test_i01_i02_i03_i04_i05_a_mistake_is_named_with_file_key_value_and_what_is_allowed(
    tmp_path: Path, override: str, message: str
) -> None:
    assert error(tmp_path, override).startswith(f"suite.toml: {message}")


@pytest.mark.parametrize("override", ["depth=3", "model.depth", "small.train.epochs=3", "device.cpu.train.epochs=3"])
def test_i01_what_is_set_is_a_table_s_key_and_a_value(tmp_path: Path, override: str) -> None:
    assert error(tmp_path, override).startswith("--set ")


def test_i04_out_of_range_numbers_of_any_length(tmp_path: Path) -> None:
    """Python neither reads nor writes an integer of more than 4300 digits; as hexadecimal it reads one."""
    assert "4300 digits" in error(tmp_path, text="[time]\nrounds = " + "9" * 5000)
    message = error(tmp_path, "model.depth=0x" + "f" * 5000)
    assert message.startswith("suite.toml: model.depth: must be ") and "more digits than can be shown" in message


def test_i05_images_of_another_size_than_the_models(tmp_path: Path) -> None:
    message = refused_here(tmp_path, "plan", suite_file(tmp_path), "--set", "data.resize=32")
    assert "suite.toml: model.image_size: 16×16, but the images of synthetic are 32×32; set data.resize = 16" in message


def test_i06_incompatible_components_are_listed_with_the_rule_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes = '[axes]\nattention = ["mha", "sdpa"]\npositions = ["learned", "rope_2d"]'
    suite = read_suite(tmp_path / suite_file(tmp_path, axes))
    rule = 'positions "rope_2d" needs "rotary", which attention "mha" does not offer'
    assert suite.excluded == (("mha · rope_2d", rule),) and len(suite.cells) == 3
    from vitbench.cli.console import Terminal
    from vitbench.cli.overview import print_plan

    print_plan(suite, "cpu", tmp_path / "study", Terminal())
    output = capsys.readouterr().out
    assert f"excluded: mha · rope_2d: {rule}" in output and "3 cells; 1 excluded" in output


def test_i35_a_variant_is_not_called_as_a_combination_of_the_axes_is(tmp_path: Path) -> None:
    """Their runs would be taken for those of one cell."""
    text = '[axes]\nmlp = ["gelu", "relu"]\n[[variants]]\nname = "gelu"\nset.depth = 3'
    assert 'suite.toml: variants: "gelu" is the label of a combination of the axes' in error(tmp_path, text=text)


def test_a_change_that_a_variant_does_not_have_under_set_is_named(tmp_path: Path) -> None:
    text = '[[variants]]\nname = "reg"\nmodel.registers = 3'
    assert 'variants[1].model: unknown key; changes are under "set", such as set.pooling' in error(tmp_path, text=text)


def test_i06_incompatible_components_of_a_named_variant_are_a_mistake(tmp_path: Path) -> None:
    text = '[[variants]]\nname = "turned"\nset.attention = "mha"\nset.positions = "rope_2d"'
    assert 'suite.toml: variant "turned": positions "rope_2d" needs "rotary"' in error(tmp_path, text=text)


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ("depth = []", "suite.toml: axes.depth: 0 trials: the axis is empty"),
        ('attention = ["mha"]\npositions = ["rope_2d"]', "suite.toml: 0 trials: all 1 combinations are excluded: pos"),
        ("", "suite.toml: 0 trials"),
    ],
)
def test_i07_empty_grid_is_zero_trials(tmp_path: Path, axes: str, expected: str) -> None:
    assert expected in refused_here(tmp_path, "run", suite_file(tmp_path, f"[axes]\n{axes}"))


def numbers(count: int) -> str:
    return f"[{', '.join(str(i) for i in range(1, count + 1))}]"


@pytest.mark.parametrize(
    ("values", "allowed", "message"),
    [
        (100, (), "1,000,000 cells × 1 seed exceed 10,000 trials; if that is meant, allow it with "
                  "--max-trials 1000000 or --yes (estimated cost: about "),
        (200, ("--yes",), "8,000,000 cells × 1 seed exceed 1,000,000 trials"),
    ],
)  # fmt: skip
def test_i08_a_grid_that_no_memory_holds_is_counted_and_costed_not_expanded(
    tmp_path: Path, values: int, allowed: tuple[str, ...], message: str
) -> None:
    axes = "\n".join(f"{axis} = {numbers(values)}" for axis in ("depth", "train.batch_size", "train.epochs"))
    suite = suite_file(tmp_path, f"[axes]\n{axes}")
    assert f"suite.toml: {message}" in refused_here(tmp_path, "plan", suite, *allowed, "--device", "cpu")


def test_i08_a_larger_grid_is_allowed_by_number_or_by_yes(tmp_path: Path) -> None:
    name = suite_file(tmp_path, f"[axes]\ndepth = {numbers(4)}\nmlp_ratio = [1.0, 2.0, 3.0]")
    message = refused_here(tmp_path, "plan", name, "--max-trials", "11", "--device", "cpu")
    assert "12 cells × 1 seed exceed 11 trials" in message and "--max-trials 12 or --yes" in message
    message = refused_here(tmp_path, "plan", name, "--max-trials", "11", "--device", "cuda")
    assert "its time is unknown until a trial has been measured" in message
    for allowed in (("--max-trials", "12"), ("--max-trials", "11", "--yes")):
        done = here("plan", str(tmp_path / name), *allowed, "--device", "cpu")
        assert done.returncode == 0 and "12 trials (12 train; 12 cells" in done.stdout


def test_i08_seeds_and_tuning_count(tmp_path: Path) -> None:
    text = "[tune]\ntrain.learning_rate = [1e-3, 1e-2]\nseeds = 3"
    name = suite_file(tmp_path, text)
    with pytest.raises(SpecError, match=r"1 cell × 11 seeds exceed 10 trials"):
        read_suite(tmp_path / name, ["train.seeds=5"], max_trials=10)


def test_i08_what_another_device_has_is_not_counted(tmp_path: Path) -> None:
    name = suite_file(tmp_path, "[axes]\ndepth = [1, 2]\n[device.cuda.train]\nseeds = 5\n")
    assert len(read_suite(tmp_path / name, max_trials=2, device="cpu").cells) == 2
    with pytest.raises(SpecError, match=r"2 cells × 5 seeds exceed 2 trials"):
        read_suite(tmp_path / name, max_trials=2, device="cuda")


def test_i09_repeated_values_and_trials_are_left_out_with_a_notice(tmp_path: Path) -> None:
    suite = read_suite(tmp_path / suite_file(tmp_path, "[axes]\ndepth = [1, 2, 1, 1]"))
    assert [c.model.depth for c in suite.cells] == [1, 2]
    assert suite.notices == ("axes.depth: 2 repeated values left out",)
    again = read_suite(tmp_path / suite_file(tmp_path), ["train.seeds=[3, 1, 3]"])
    assert again.notices == ("train.seeds: 1 repeated value left out",)
    assert again.cells[0].seeds == (3, 1)
    many = f"[axes]\ndepth = [{', '.join(['1', '2'] * 15_000)}]"  # looked through once
    assert read_suite(tmp_path / suite_file(tmp_path, many)).notices == ("axes.depth: 29,998 repeated values left out",)
    twice = '[[variants]]\nname = "a"\n[[variants]]\nname = "b"\nset.depth = 1'
    info = plan(read_suite(tmp_path / suite_file(tmp_path, twice)), "cpu")
    assert len(info.trials) == 1, "one trial, whatever its cells are called"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[model]\nx = 1", "(at line "),
        ("[axes]\ndepth = [1]\ndepth = [2]\n", "Cannot overwrite a value (at line "),
        ("[axes\n", "Expected ']' at the end of a table declaration (at line "),
        ("[axes]\ndepth = [1, 2", "(at end of document)"),
    ],
)
def test_i10_syntax_errors_have_line_and_column(tmp_path: Path, text: str, place: str) -> None:
    message = refused_here(tmp_path, "plan", suite_file(tmp_path, text))
    assert message.startswith("vitbench: suite.toml: ")
    assert place in message and ("column" in message or "end of" in message)


@pytest.mark.parametrize("name", ["suite.yml", "SUITE.YAML"])
def test_i11_yaml_is_not_even_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a: &a [lol, lol]\nb: [*a, *a]\n!!python/object/apply:os.system ['touch ran']\n")
    message = refused_here(tmp_path, "plan", name)
    assert message == f"vitbench: {name}: use TOML: suites are TOML, not YAML; see ablations/ for examples\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000 + "]" * 5000,
        "x = " + "{a=" * 300 + "1" + "}" * 300,
        "x = " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        DOTTED + " = 1",
        f"[{DOTTED}]",
        f"x = {{ {DOTTED} = 1 }}",
    ],
    ids=["arrays", "tables", "one too many", "dotted key", "dotted table", "dotted key inside"],
)
def test_i11_i31_nesting_has_a_bound(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.toml").write_text(text)
    began = time.process_time()
    with pytest.raises(SpecError) as caught:
        read_suite(tmp_path / "deep.toml")
    assert str(caught.value) == f"deep.toml: tables and arrays are nested more than {MAX_DEPTH} deep"
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("override", ["model.x=" + "[" * 3000, DOTTED + "=1", "model." + ".".join("a" * 30) + "=1"])
def test_i11_nesting_has_a_bound_on_the_command_line(tmp_path: Path, override: str) -> None:
    message = error(tmp_path, override)
    assert "--set" in message and len(message) < 300 and f"nested more than {MAX_DEPTH} deep" in message


def test_i11_size_has_a_bound(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text("#" * (MAX_SUITE_BYTES + 1))
    for path in (tmp_path / "large.toml", Path("/dev/zero")):
        with pytest.raises(SpecError, match=f"{path.name}: larger than 1,048,576 bytes"):
            read_suite(path)


def test_i11_messages_have_a_bound(tmp_path: Path) -> None:
    text = "\n".join(f"wrong_{i} = 1" for i in range(5000)) + SUITE
    (tmp_path / "many.toml").write_text(text)
    with pytest.raises(SpecError) as caught:
        read_suite(tmp_path / "many.toml")
    assert len(caught.value.messages) == 5000
    assert str(caught.value).count("\n") == SHOWN and str(caught.value).endswith("… and 4,900 more")


BAD_NAMES = [
    "../../x", "/abs", "a\\b", "C:", ".", "..", "-rf", "x" * 300, "x" * 65, "a\x00b", "a\nb", "a\n", "\N{PILE OF POO}",
    "é", "", " ", "a b", "~", "$HOME", "a/b", ".hidden", "_a", "<script>alert(1)</script>", "{{7*7}}", "=cmd()",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_i12_names_that_are_no_folder(tmp_path: Path, name: str) -> None:
    quoted = "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or c in '"\\' else c for c in name)
    (tmp_path / "suite.toml").write_text(SUITE.replace('name = "small"', f'name = "{quoted}"'), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_suite(tmp_path / "suite.toml")
    (message,) = caught.value.messages
    assert message.startswith("suite.toml: suite.name: ") and len(message) < 220
    assert message.endswith('is not a name: letters, digits, ".", "_", "-", at most 64, the first a letter or a digit')


@pytest.mark.parametrize("name", ["con", "lpt9", "CON", "Nul.txt", "com1.a.b"])
def test_i12_names_that_windows_keeps(tmp_path: Path, name: str) -> None:
    message = error(tmp_path, f"suite.name={name}")
    assert message == f'suite.toml: suite.name: "{name}" is not a name: Windows keeps it for a device'


@pytest.mark.parametrize("name", ["a", "A-1.b_c", "x" * 64, "console", "com10", "0"])
def test_i12_names_that_are_allowed(tmp_path: Path, name: str) -> None:
    assert read_suite(tmp_path / suite_file(tmp_path), [f'suite.name="{name}"']).info.name == name


def test_i12_a_name_leaves_no_folder(tmp_path: Path) -> None:
    (inside := tmp_path / "inside").mkdir()
    suite_file(inside, base=SUITE.replace('"small"', '"../../outside"'))
    assert "is not a name" in refused_here(inside, "run", "suite.toml")
    assert set(files_of(tmp_path)) == {"inside", "inside/suite.toml"}


@pytest.mark.parametrize("axis", ["a\nb", "a\x1b[31mb", "a\x9bb"])
def test_i12_an_axis_of_tables_is_named_on_one_line(tmp_path: Path, axis: str) -> None:
    quoted = axis.encode("unicode_escape").decode().replace("\\x", "\\u00")
    message = error(tmp_path, text=f'[[axes."{quoted}"]]\nname = "one"\nset = {{ depth = 2 }}')
    assert "must be a name without control characters" in message


def test_all_mistakes_of_a_file_at_once(tmp_path: Path) -> None:
    changes = ("model.depht=3", "train.epochs=0", 'axes.attention=["spda"]', "nonsense.x=1", "suite.name=CON")
    message = refused_by_process(tmp_path, "plan", suite_file(tmp_path), *sets(*changes))
    assert len(message.splitlines()) == 5 and all(line.startswith("suite.toml: ") for line in message.splitlines())


BEYOND = "1" + "0" * 400
HUGE = {
    "a float": ["train.learning_rate=" + BEYOND],
    "a float of an axis": [f"axes.train.learning_rate=[{BEYOND}, 1.0]"],
    "an integer": ["train.epochs=" + BEYOND],
    "a tiny time": ["suite.timeout_s=1e-300"],
    "a key": [DOTTED + "=1"],
    "a key in a value": ["train.x={" + DOTTED + "=1}"],
}


@pytest.mark.parametrize("how", HUGE)
def test_i31_numbers_and_keys_beyond_measure(tmp_path: Path, how: str) -> None:
    began = time.process_time()
    message = refused_here(tmp_path, "plan", suite_file(tmp_path), *sets(*HUGE[how]))
    assert time.process_time() - began < 1.0 and len(message) < 300 and message.count("\n") == 1


def test_i31_a_parameter_of_an_engine_that_is_no_number_is_text(tmp_path: Path) -> None:
    arguments = ("run", suite_file(tmp_path), "--device", "no", "--launcher", "slurm", "--engine")
    for value in ("9" * 5000, "\N{SUPERSCRIPT TWO}"):
        message = refused_here(tmp_path, *arguments, f"a={value}")
        assert message.startswith('vitbench: "no" is no device')
