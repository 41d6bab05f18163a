"""Bad suites: what a user sees of each, row by row (I1 to I12). Nothing of any is run or written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.bad_input import files_of, refused_by_process, refused_here, suite_file
from tests.small import SUITE
from vitbench import registry
from vitbench.config import SpecError, read_suite
from vitbench.config.suite_errors import SHOWN
from vitbench.config.toml import MAX_DEPTH, MAX_SUITE_BYTES
from vitbench.registry import DEVICE_FILES
from vitbench.runner.plan import plan
from vitbench.store import StudyFolder

KNOWN_ATTENTION = ", ".join(registry.names("attention"))


def error(folder: Path, *overrides: str, text: str = "") -> str:
    """What `read_suite` says of the small suite with some values replaced and some lines added."""
    with pytest.raises(SpecError) as caught:
        read_suite(folder / suite_file(folder, text), overrides)
    return str(caught.value)


def test_i01_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    said = refused_by_process(tmp_path, "plan", suite_file(tmp_path, base=SUITE.replace("depth = 1", "depht = 1")))
    assert said == 'vitbench: suite.toml: model.depht: unknown key; did you mean "depth"?\n'


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("trian.epochs=1", 'trian: unknown key; did you mean "train"?'),
        ("train.epocs=1", 'train.epocs: unknown key; did you mean "epochs"?'),
        ("axes.dpeth=[3]", 'axes.dpeth: "dpeth": unknown key; did you mean "depth"?'),
        ("time.cpu.iteration=3", 'time.cpu.iteration: unknown key; did you mean "iterations"?'),
    ],
)
def test_i01_unknown_key_in_any_table(tmp_path: Path, override: str, expected: str) -> None:
    assert error(tmp_path, override).startswith(f"suite.toml: {expected}")


def test_i02_unknown_component_names_the_nearest_and_all(tmp_path: Path) -> None:
    said = refused_by_process(tmp_path, "plan", suite_file(tmp_path, '[axes]\nattention = ["sdpa", "spda"]'))
    assert said.startswith(
        'vitbench: suite.toml: axes.attention: "spda" is not a component of this slot; did you mean "sdpa"?; '
        f"known: {KNOWN_ATTENTION}"
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [('"8"', 'string "8"'), ("true", "boolean true"), ("8.0", "number 8.0"), ("[8]", "array (8,)"),
     ("1979-05-27", "date 1979-05-27"), ("{ x = 1 }", "table {'x': 1}")],
)  # fmt: skip
def test_i03_wrong_type_is_not_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, shown: str
) -> None:
    said = refused_here(tmp_path, capsys, "plan", suite_file(tmp_path), "--set", f"model.depth={given}")
    assert said == f"vitbench: suite.toml: model.depth: must be an integer, got {shown}\n"


def test_i03_wrong_type_through_the_command_line(tmp_path: Path) -> None:
    said = refused_by_process(tmp_path, "run", suite_file(tmp_path, base=SUITE.replace("depth = 1", 'depth = "8"')))
    assert said == 'vitbench: suite.toml: model.depth: must be an integer, got string "8"\n'


@pytest.mark.parametrize(
    ("override", "bound"),
    [
        ("model.depth=0", "must be > 0, got integer 0"),
        ("model.depth=100000000000000000000000", "must be <= 1024, got integer 100000000000000000000000"),
        ("model.dropout=1.5", "must be < 1.0, got number 1.5"),
        ("train.epochs=-1", "must be > 0, got integer -1"),
        ("train.seeds=[18446744073709551616]", "must be < 18446744073709551616"),
        ("train.learning_rate=inf", "must be finite, got number inf"),
        ("train.learning_rate=nan", "must be finite, got number nan"),
        ("suite.timeout_s=0.0", "must be >= 1.0, got number 0.0"),
        ("data.validation_images=-1", "must be >= 0, got integer -1"),
    ],
)
def test_i04_out_of_range_names_the_bound(tmp_path: Path, override: str, bound: str) -> None:
    key = override.partition("=")[0]
    assert error(tmp_path, override).startswith(f"suite.toml: {key}: {bound}")


def test_i04_out_of_range_numbers_of_any_length(tmp_path: Path) -> None:
    """Python neither reads nor writes an integer of more than 4300 digits; as hexadecimal it reads one."""
    assert "4300 digits" in error(tmp_path, text="[time]\nrounds = " + "9" * 5000)
    assert "4300 digits" in error(tmp_path, "model.depth=" + "9" * 5000)
    said = error(tmp_path, "model.depth=0x" + "f" * 5000)
    assert said.startswith("suite.toml: model.depth: must be ") and "more digits than can be shown" in said
    assert "Traceback" not in refused_by_process(tmp_path, "plan", "suite.toml", "--set", "model.depth=-1")


def test_i05_what_does_not_divide_is_said_with_both_numbers(tmp_path: Path) -> None:
    said = refused_by_process(tmp_path, "run", suite_file(tmp_path), "--set", "model.heads=5", "--set",
                              "model.patch_size=3")  # fmt: skip
    assert "suite.toml: model.heads: 5 does not divide dim 32\n" in said
    assert (
        "suite.toml: model.patch_size: 3 does not divide the image height 16 and 3 does not divide the image width 16"
        in said
    )


def test_i05_images_of_another_size_than_the_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused_here(tmp_path, capsys, "plan", suite_file(tmp_path), "--set", "data.resize=32")
    assert "suite.toml: model.image_size: 16×16, but the images of synthetic are 32×32; set data.resize = 16" in said


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
    shown = capsys.readouterr().out
    assert f"excluded: mha · rope_2d: {rule}" in shown and "3 cells; 1 excluded" in shown


def test_i06_incompatible_components_of_a_named_variant_are_a_mistake(tmp_path: Path) -> None:
    text = '[[variants]]\nname = "turned"\nset.attention = "mha"\nset.positions = "rope_2d"'
    said = refused_by_process(tmp_path, "plan", suite_file(tmp_path, text))
    assert 'suite.toml: variant string "turned": positions "rope_2d" needs "rotary"' in said


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ("depth = []", "suite.toml: axes.depth: 0 trials: the axis is empty"),
        ('attention = ["mha"]\npositions = ["rope_2d"]', "suite.toml: 0 trials: all 1 combinations are excluded: pos"),
        ("", "suite.toml: 0 trials"),
    ],
)
def test_i07_empty_grid_is_zero_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], axes: str, expected: str
) -> None:
    assert expected in refused_here(tmp_path, capsys, "run", suite_file(tmp_path, f"[axes]\n{axes}"))


def test_i07_empty_grid_in_a_process_of_its_own(tmp_path: Path) -> None:
    assert "0 trials" in refused_by_process(tmp_path, "run", suite_file(tmp_path, "[axes]\ndepth = []"))


def numbers(count: int) -> str:
    return f"[{', '.join(str(i) for i in range(1, count + 1))}]"


def test_i08_a_grid_of_a_million_is_counted_and_costed_not_expanded(tmp_path: Path) -> None:
    axes = "\n".join(f"{axis} = {numbers(100)}" for axis in ("depth", "train.batch_size", "train.epochs"))
    said = refused_by_process(tmp_path, "run", suite_file(tmp_path, f"[axes]\n{axes}"), "--device", "cpu")
    assert said.startswith(
        "vitbench: suite.toml: 1,000,000 cells × 1 seed exceed 10,000 trials; if that is meant, allow it with "
        "--max-trials 1000000 or --yes (estimated cost: about "
    )
    assert said.rstrip().endswith(" days)")


def test_i08_a_larger_grid_is_allowed_by_number_or_by_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = suite_file(tmp_path, f"[axes]\ndepth = {numbers(4)}\nmlp_ratio = [1.0, 2.0, 3.0]")
    said = refused_here(tmp_path, capsys, "plan", name, "--max-trials", "11", "--device", "cpu")
    assert "12 cells × 1 seed exceed 11 trials" in said and "--max-trials 12 or --yes" in said
    said = refused_here(tmp_path, capsys, "plan", name, "--max-trials", "11", "--device", "cuda")
    assert "its time is unknown until a trial has been measured" in said
    from contextlib import chdir

    from vitbench.cli.main import main

    for allowed in (("--max-trials", "12"), ("--max-trials", "11", "--yes")):
        with chdir(tmp_path), pytest.raises(SystemExit) as end:
            main(["plan", name, *allowed, "--device", "cpu"])
        assert not end.value.code and "12 trials (12 train; 12 cells" in capsys.readouterr().out


def test_i08_not_even_yes_plans_what_no_memory_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    axes = "\n".join(f"{axis} = {numbers(200)}" for axis in ("depth", "train.batch_size", "train.epochs"))
    said = refused_here(tmp_path, capsys, "plan", suite_file(tmp_path, f"[axes]\n{axes}"), "--yes", "--device", "cpu")
    assert "8,000,000 cells × 1 seed exceed 1,000,000 trials" in said


def test_i08_seeds_and_tuning_count(tmp_path: Path) -> None:
    text = "[tune]\ntrain.learning_rate = [1e-3, 1e-2]\nseeds = 3"
    name = suite_file(tmp_path, text)
    with pytest.raises(SpecError, match=r"1 cell × 11 seeds exceed 10 trials"):
        read_suite(tmp_path / name, ["train.seeds=5"], max_trials=10)


def test_i09_repeated_values_and_trials_are_left_out_with_a_notice(tmp_path: Path) -> None:
    suite = read_suite(tmp_path / suite_file(tmp_path, "[axes]\ndepth = [1, 2, 1, 1]"))
    assert [c.model.depth for c in suite.cells] == [1, 2]
    assert suite.notices == ("axes.depth: 2 repeated values left out",)
    twice = '[[variants]]\nname = "a"\n[[variants]]\nname = "b"\nset.depth = 1'
    info = plan(read_suite(tmp_path / suite_file(tmp_path, twice)), "cpu")
    assert len(info.trials) == 1, "one trial, whatever its cells are called"


def test_i09_a_long_axis_is_looked_through_once(tmp_path: Path) -> None:
    values = f"[{', '.join(['1', '2'] * 15_000)}]"
    suite = read_suite(tmp_path / suite_file(tmp_path, f"[axes]\ndepth = {values}"))
    assert suite.notices == ("axes.depth: 29,998 repeated values left out",)


def test_i09_one_and_true_are_two_values(tmp_path: Path) -> None:
    assert "got boolean true" in error(tmp_path, "axes.depth=[1, true]")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[model]\nx = 1", "(at line "),
        ("[axes]\ndepth = [1]\ndepth = [2]\n", "Cannot overwrite a value (at line "),
        ("[axes\n", "Expected ']' at the end of a table declaration (at line "),
        ("[axes]\ndepth = [1, 2", "(at end of document)"),
    ],
)
def test_i10_syntax_errors_have_line_and_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, place: str
) -> None:
    said = refused_here(tmp_path, capsys, "plan", suite_file(tmp_path, text))
    assert said.startswith("vitbench: suite.toml: ") and place in said and ("column" in said or "end of" in said)


def test_i10_duplicate_key_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "twice.toml").write_text("a = 1\na = 2\n")
    said = refused_by_process(tmp_path, "plan", "twice.toml")
    assert said == "vitbench: twice.toml: Cannot overwrite a value (at line 2, column 6)\n"


@pytest.mark.parametrize("name", ["suite.yaml", "suite.yml", "SUITE.YAML"])
def test_i11_yaml_is_not_even_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / name).write_text("a: &a [lol, lol]\nb: [*a, *a]\n!!python/object/apply:os.system ['touch ran']\n")
    said = refused_here(tmp_path, capsys, "plan", name)
    assert said == f"vitbench: {name}: use TOML: suites are TOML, not YAML; see ablations/ for examples\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000 + "]" * 5000,
        "x = " + "{a=" * 300 + "1" + "}" * 300,
        "x = " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        ".".join("a" * 2000) + " = 1",
        "[" + ".".join("a" * 2000) + "]",
    ],
    ids=["arrays", "tables", "one too many", "dotted key", "dotted table"],
)
def test_i11_nesting_has_a_bound(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.toml").write_text(text)
    with pytest.raises(SpecError) as caught:
        read_suite(tmp_path / "deep.toml")
    assert str(caught.value) == f"deep.toml: tables and arrays are nested more than {MAX_DEPTH} deep"


@pytest.mark.parametrize(
    "override", ["model.x=" + "[" * 3000, ".".join("a" * 3000) + "=1", "model." + ".".join("a" * 30) + "=1"]
)
def test_i11_nesting_has_a_bound_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], override: str
) -> None:
    said = refused_here(tmp_path, capsys, "plan", suite_file(tmp_path), "--set", override)
    assert "--set" in said and len(said) < 300 and f"nested more than {MAX_DEPTH} deep" in said


def test_i11_size_has_a_bound(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text("#" * (MAX_SUITE_BYTES + 1))
    said = refused_by_process(tmp_path, "plan", "large.toml")
    assert said == "vitbench: large.toml: larger than 1,048,576 bytes, which is the most that a suite has\n"
    with pytest.raises(SpecError, match="zero: larger than"):
        read_suite(Path("/dev/zero"))


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
    (said,) = caught.value.messages
    assert said.startswith("suite.toml: suite.name: ") and len(said) < 220
    assert said.endswith('is not a name: letters, digits, ".", "_", "-", at most 64, the first a letter or a digit')


@pytest.mark.parametrize("name", [*sorted(DEVICE_FILES), "CON", "Nul.txt", "com1.a.b"])
def test_i12_names_that_windows_keeps(tmp_path: Path, name: str) -> None:
    said = error(tmp_path, f"suite.name={name}")
    assert said == f'suite.toml: suite.name: "{name}" is not a name: Windows keeps it for a device'


@pytest.mark.parametrize("name", ["a", "A-1.b_c", "x" * 64, "console", "com10", "0"])
def test_i12_names_that_are_allowed(tmp_path: Path, name: str) -> None:
    assert read_suite(tmp_path / suite_file(tmp_path), [f'suite.name="{name}"']).info.name == name


def test_i12_a_name_leaves_no_folder_in_a_process_of_its_own(tmp_path: Path) -> None:
    (inside := tmp_path / "inside").mkdir()
    suite_file(inside, base=SUITE.replace('"small"', '"../../outside"'))
    assert "is not a name" in refused_by_process(inside, "run", "suite.toml")
    assert set(files_of(tmp_path)) == {"inside", "inside/suite.toml"}


@pytest.mark.parametrize("trial_id", ["../../../escaped", "/tmp/escaped", "a/b", "", "0" * 19, "A" * 20, "0" * 21])
def test_i12_no_record_has_an_id_that_is_a_path(tmp_path: Path, trial_id: str) -> None:
    from pydantic import ValidationError

    from tests.small import record, train_trial
    from vitbench.store import Record

    with pytest.raises(ValidationError, match="trial_id"):
        Record.model_validate({**dict(record(train_trial())), "trial_id": trial_id})


def test_i12_a_record_stays_in_its_study(tmp_path: Path) -> None:
    from tests.small import record, train_trial

    study = StudyFolder.start(tmp_path / "study", plan(read_suite(tmp_path / suite_file(tmp_path)), "cpu"))
    written = study.write(record(train_trial()))
    assert written.resolve().parent == (tmp_path / "study" / "records").resolve()


@pytest.mark.parametrize("axis", ["a\nb", "a\x1b[31mb", "a\x9bb"])
def test_i12_an_axis_of_tables_is_named_on_one_line(tmp_path: Path, axis: str) -> None:
    quoted = axis.encode("unicode_escape").decode().replace("\\x", "\\u00")
    said = error(tmp_path, text=f'[[axes."{quoted}"]]\nname = "one"\nset = {{ depth = 2 }}')
    assert "must be a name without control characters" in said


def test_all_mistakes_of_a_file_at_once(tmp_path: Path) -> None:
    changes = ("model.depht=3", "train.epochs=0", 'axes.attention=["spda"]', "nonsense.x=1", "suite.name=CON")
    said = refused_by_process(tmp_path, "plan", suite_file(tmp_path), *(p for c in changes for p in ("--set", c)))
    assert len(said.splitlines()) == 5 and all(line.startswith("suite.toml: ") for line in said.splitlines())


BEYOND = "1" + "0" * 400
HUGE = {
    "a float": ["train.learning_rate=" + BEYOND],
    "a float of an axis": [f"axes.train.learning_rate=[{BEYOND}, 1.0]"],
    "an integer": ["train.epochs=" + BEYOND],
    "a tiny time": ["suite.timeout_s=1e-300"],
    "a key": [".".join("a" * 20_000) + "=1"],
    "a key in a value": ["train.x={" + ".".join("a" * 20_000) + "=1}"],
}


@pytest.mark.parametrize("how", HUGE)
def test_i31_numbers_and_keys_beyond_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str) -> None:
    arguments = [part for override in HUGE[how] for part in ("--set", override)]
    began = time.monotonic()
    said = refused_here(tmp_path, capsys, "plan", suite_file(tmp_path), *arguments)
    assert time.monotonic() - began < 1.0 and len(said) < 300 and said.count("\n") == 1


@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "x = {{ {} = 1 }}"])
def test_i31_a_dotted_key_of_20_000_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    suite, began = suite_file(tmp_path, form.format(".".join("a" * 20_000))), time.monotonic()
    assert "nested more than 16 deep" in refused_here(tmp_path, capsys, "plan", suite)
    assert time.monotonic() - began < 1.0


def test_i31_a_parameter_of_an_engine_that_is_no_number_is_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in ("9" * 5000, "\N{SUPERSCRIPT TWO}"):
        said = refused_here(tmp_path, capsys, "run", suite_file(tmp_path), "--device", "no", "--engine", f"a={value}")
        assert said.startswith('vitbench: "no" is no device')
