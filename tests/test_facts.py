"""Facts of reports: what differs is seen, what does not is not, and every caveat has a name."""

import copy
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from tests.report.builders import written
from tools.archetypes import COMPARISONS, STUDIES
from tools.facts import Report, compare, dump, key_columns, load, main, meant, read
from vitbench.report.comparisons import limits
from vitbench.report.sections.caveats import CAVEATS, stated
from vitbench.report.view import View

FROZEN = Path(__file__).parents[1] / "tools" / "facts.json.gz"
Made = dict[str, Report]


def made(studies: int = 1) -> Made:
    """Facts of some studies that are alike."""
    report: Report = {
        "tables": {
            "tables/accuracy": {
                "cell": ["a", "a", "b", "b"],
                "seed": [0.0, 1.0, 0.0, 1.0],
                "test_accuracy_pct": [40.0, 41.5, 38.25, None],
                "state": ["ok", "ok", "ok", "oom"],
            },
            "figures/accuracy": {"row": ["a", "a", "b"], "value": [40.0, 41.5, 38.25]},
        },
        "caveats": ["one-seed", "other-batches", "other-batches"],
    }
    return {f"study {n}": copy.deepcopy(report) for n in range(1, studies + 1)}


def changed(change: Callable[[Report], object], studies: int = 1) -> list[str]:
    """What the comparison says of a change of each study."""
    new = made(studies)
    for report in new.values():
        change(report)
    return compare(made(studies), new)


def set_cell(column: str, row: int, value: float | str | None) -> Callable[[Report], object]:
    """Another value in a cell of the table of accuracies."""
    return lambda report: report["tables"]["tables/accuracy"][column].__setitem__(row, value)


def without_row(report: Report, row: int) -> None:
    """Take a row out of the table of accuracies."""
    for values in report["tables"]["tables/accuracy"].values():
        del values[row]


def rename(report: Report, old: str, new: str) -> None:
    """Another name for a column of the table of accuracies."""
    columns = report["tables"]["tables/accuracy"]
    columns[new] = columns.pop(old)


def test_a_changed_number_is_named_by_its_row() -> None:
    assert changed(set_cell("test_accuracy_pct", 1, 41.6)) == [
        "cells differ test_accuracy_pct: 1, in study 1/tables/accuracy/test_accuracy_pct; cell a, seed 1.0: 41.5 → 41.6"
    ]


@pytest.mark.parametrize(("relative", "seen"), [(1e-12, 0), (5e-10, 0), (1e-8, 1)])
def test_numbers_are_compared_to_nine_digits(relative: float, seen: int) -> None:
    assert len(changed(set_cell("test_accuracy_pct", 1, 41.5 * (1 + relative)))) == seen


@pytest.mark.parametrize("row", range(4))
def test_a_lost_row_is_one_difference_and_so_is_a_new_one(row: int) -> None:
    new = made()
    without_row(new["study 1"], row)
    (gone,), (come,) = compare(made(), new), compare(new, made())
    where = f"tables/accuracy: 1, in study 1/tables/accuracy/(rows); cell {'aabb'[row]}, seed {row % 2}.0"
    assert (gone, come) == (f"rows gone {where}", f"rows new {where}")


def test_the_order_of_rows_and_columns_decides_nothing_where_keys_tell_them_apart() -> None:
    def turned(report: Report) -> None:
        columns = report["tables"]["tables/accuracy"]
        report["tables"]["tables/accuracy"] = {name: columns[name][::-1] for name in reversed(columns)}

    assert changed(turned) == []


def test_a_lost_caveat_is_seen_and_one_of_two_as_well() -> None:
    assert changed(lambda report: report["caveats"].remove("one-seed")) == [
        "caveat gone one-seed: 1, in study 1/caveats/one-seed"
    ]
    assert changed(lambda report: report["caveats"].pop()) == [
        "caveat gone other-batches: 1, in study 1/caveats/other-batches"
    ]
    assert changed(lambda report: report["caveats"].append("at-chance")) == [
        "caveat new at-chance: 1, in study 1/caveats/at-chance"
    ]


def test_a_renamed_key_hides_no_other_difference() -> None:
    def change(report: Report) -> None:
        rename(report, "cell", "name")
        set_cell("test_accuracy_pct", 1, 41.6)(report)

    kinds = {line.partition(":")[0] for line in changed(change)}
    assert {"column gone cell", "column new name", "cells differ test_accuracy_pct"} == kinds


def test_tables_and_studies_that_are_gone_or_new() -> None:
    new = made(2)
    del new["study 1"]["tables"]["figures/accuracy"]
    old = made(3)
    assert compare(old, new) == [
        "study gone study 3: 1, in study 3",
        "table gone figures/accuracy: 1, in study 1/figures/accuracy",
    ]
    assert [line.split()[1] for line in compare(new, old)] == ["new", "new"]


def test_what_is_meant_is_taken_away_and_a_pattern_without_use_is_told() -> None:
    old, new = made(2), made(2)
    for report in new.values():
        rename(report, "test_accuracy_pct", "accuracy")
        report["caveats"].remove("one-seed")
    patterns = meant("# what is meant\n*/tables/accuracy/test_accuracy_pct  # renamed\n\n*/tables/*/accuracy\n")
    assert patterns == ["*/tables/accuracy/test_accuracy_pct", "*/tables/*/accuracy"]
    assert compare(old, new, patterns) == [
        "caveat gone one-seed: 2, in study 1/caveats/one-seed, study 2/caveats/one-seed"
    ]
    assert compare(old, new, [*patterns, "*/caveats/one-seed"]) == []
    rotten = [*patterns, "*/caveats/one-seed", "study 1/tables/[a]*"]
    assert compare(old, new, rotten) == ["meant, but nothing differs there: study 1/tables/[a]*"]
    assert len(compare(old, new, ["study 1/*"])) == 3, "study 2 differs all the same"


def test_the_exit_status_says_whether_something_differs(tmp_path: Path) -> None:
    new = made()
    set_cell("seed", 3, 7.0)(new["study 1"])
    old_file, new_file, pattern = tmp_path / "old.json.gz", tmp_path / "new.json", tmp_path / "meant"
    dump(made(), old_file)
    dump(new, new_file)
    pattern.write_text("*/tables/accuracy/(rows) # one seed is another\n")
    assert (load(old_file), load(new_file)) == (made(), new)
    run = CliRunner().invoke
    assert run(main, ["compare", str(old_file), str(old_file)]).exit_code == 0
    done = run(main, ["compare", str(old_file), str(new_file)])
    assert done.exit_code == 1 and done.output.count("\n") == 2, "a row is gone, and one is new"
    assert run(main, ["compare", str(old_file), str(new_file), "--meant", str(pattern)]).exit_code == 0
    assert run(main, ["compare", str(old_file), str(old_file), "--meant", str(pattern)]).exit_code == 1


def test_an_archetype_rendered_again_gives_the_same_facts(tmp_path: Path) -> None:
    def rendered(name: str) -> Report:
        study = STUDIES["hostile-names"](tmp_path / name / "study")
        return read(written(study, tmp_path / name / "report").parent, [name for name, _ in stated(View(study))])

    first = rendered("first")
    assert first == rendered("second")
    assert {"tables/trials", "tables/accuracy", "tables/not-run"} <= set(first["tables"])
    assert {"one-seed", "fallback-data"} <= set(first["caveats"])


def test_a_report_s_facts_are_its_files_and_the_tables_of_its_page_alone(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.csv").write_text("n\n1\n")
    (tmp_path / "report.md").write_text("# a\n")
    assert read(tmp_path, ["one-seed"]) == {"tables": {"tables/a": {"n": [1.0]}}, "caveats": ["one-seed"]}
    margins = (
        "| comparison | margin 1 point | n |\n| --- | --- | --- |\n| a | worse | 3 |\n\n| cell |\n| --- |\n| a |\n"
    )
    (tmp_path / "report.md").write_text(f"# a\n\n## Claims\n\n{margins}\n{margins}")
    columns: dict[str, list[float | str | None]] = {"comparison": ["a"], "margin 1 point": ["worse"], "n": ["3"]}
    tables = {"tables/a": {"n": [1.0]}, "page/Claims 1": columns, "page/Claims 2": columns}
    assert read(tmp_path, [])["tables"] == tables, "of the page those that no file holds"


def test_keys_are_of_text_before_whole_numbers_and_never_of_measurements() -> None:
    def keys(**columns: list[object]) -> list[str]:
        return key_columns(pd.DataFrame(columns, dtype=object))

    assert keys(ms=[1.5, 2.5, 3.5], cell=["a", "b", "c"], seed=[0.0, 1.0, 2.0]) == ["cell"]
    assert keys(ms=[1.5, 2.5, 3.5], state=["ok", "oom", "ok"], seed=[0.0, 1.0, 2.0]) == ["seed"]
    assert keys(ms=[1.5, 2.5], flops=[1e9, 2e9]) == []
    assert keys(cell=["a"], seed=[0.0]) == []


TRIGGERED = {
    "edited": {"history-unreadable", "history-begins-late", "plan-edited", "removed-runs", "repeated-runs"},
    "changed": {"seeds-changed", "changed-after-results", "standard-deviation", "one-test-set"},
    "no-history": {"history-missing", "unlisted-results"},
    "survivors": {"mean-over-survivors", "test-images-read", "sampling-error", "near-duplicate-test-images"},
    "training-alone": {"near-duplicate-test-images"},
    "old-code": {"one-seed", "several-environments", "other-code", "edited-plug-in", "uncommitted-changes"},
    "at-chance": {"at-chance", "no-noise-seen"},
    "stand-ins": {"disagreeing-implementations", "seeds-of-equivalents"},
    "unstable": {"unstable-timings", "uncorrected-intervals"},
    "few-samples": {"one-process", "no-interval-of-ratios"},
    "crowded": {"load-while-timing", "shared-machine"},
    "fallback": {"fallback-data", "untuned-settings"},
    "other-batches": {"other-batches", "noise-floor"},
    "tuned": {"tuned-settings"},
    "tuned-to-the-end": {"tuned-to-the-end"},
    "changed-images": {"changed-images"},
    "other-recipes": {"settings-by-cell", "unequal-budgets"},
}
"""Archetype → caveats that it has, among others."""
COMPARED = {
    "devices-and-versions": {
        "other-machines", "other-software", "uncommitted-changes", "timings-not-in-turns", "matched-without-device",
        "other-recipe", "drift-of-equal-seeds", "unstable-timings",
    },
    "unlike-studies": {
        "unrecorded-machine", "one-study-in-arms", "study-given-twice", "other-images", "fallback-data", "one-seed",
        "one-process", "records-set-aside",
    },
}  # fmt: skip
NOT_MADE = {"unequal-timing-protocol"}  # Limits of a comparison that no archetype has


@pytest.mark.parametrize(("kind", "names"), [*TRIGGERED.items(), *COMPARED.items()])
def test_every_caveat_and_every_limit_of_a_comparison_is_stated_where_it_applies(
    kind: str, names: set[str], tmp_path: Path
) -> None:
    comparison = COMPARISONS.get(kind)
    sentences = dict(limits.stated(comparison(tmp_path)) if comparison else stated(View(STUDIES[kind](tmp_path))))
    assert set(sentences) >= names
    assert not [text for text in sentences.values() if "{" in text]


def test_no_name_is_without_an_example() -> None:
    assert set().union(*COMPARED.values(), NOT_MADE) == {limit.name for limit in limits.LIMITS}
    assert set().union(*TRIGGERED.values()) == {caveat.name for caveat in CAVEATS}


def test_the_frozen_facts_are_there() -> None:
    frozen = load(FROZEN)
    assert {f"made-{kind}" for kind in STUDIES} | {f"compared-{kind}" for kind in COMPARISONS} <= set(frozen)
    assert {path.parent.name for path in FROZEN.parents[1].glob("results/reference/*/study.json")} <= set(frozen)
    every = {limit.name for limit in limits.LIMITS} | {caveat.name for caveat in CAVEATS}
    assert every - NOT_MADE == {name for report in frozen.values() for name in report["caveats"]}
    assert compare(frozen, frozen) == []
