"""`vitbench compare` as a user types it: on studies, and on what pytest-benchmark writes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.test_comparison import Timed, cells, write
from vitbench.cli.main import main

pytestmark = pytest.mark.xdist_group("compare")  # what its fixtures run is run once

BENCHMARKS = """
import os, time

def test_sleep(benchmark):
    benchmark.pedantic(time.sleep, args=(float(os.environ["SECONDS"]),), rounds=12, iterations=1)

def test_sum(benchmark):
    benchmark.pedantic(sum, args=(range(20_000),), rounds=300, iterations=1)
"""
SLEEP, SUM = "test_tiny.py::test_sleep", "test_tiny.py::test_sum"

Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)"""
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["compare", *map(str, arguments)])
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def benchmarked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with old.json, slow.json (one benchmark takes three times as long) and without-rounds.json."""
    folder = tmp_path_factory.mktemp("benchmarks")
    (folder / "test_tiny.py").write_text(BENCHMARKS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, seconds in (("old", "0.001"), ("slow", "0.003")):
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "-p", "no:cacheprovider",
             f"--benchmark-json={name}.json", f"--benchmark-save={name}", "--benchmark-storage=saved"],
            cwd=folder, env={"SECONDS": seconds}, check=True, capture_output=True, timeout=120,
        )  # fmt: skip
    (without,) = (folder / "saved").rglob("*_old.json")
    without.rename(folder / "without-rounds.json")
    return folder


def changed(source: Path, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    content = json.loads(source.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


def slower(name: str, factor: float) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for benchmark in content["benchmarks"]:
            if benchmark["fullname"] == name:
                benchmark["stats"]["data"] = [factor * seconds for seconds in benchmark["stats"]["data"]]

    return change


def test_a_slowdown_of_20_percent_fails_a_gate_of_5_and_passes_one_of_30(tmp_path: Path, compare: Compare) -> None:
    old, new = write(tmp_path / "A", cells(3)), write(tmp_path / "B", cells(3, {2: 1.2}), seed=1)
    for limit, expected in (("5%", 1), ("5 %", 1), ("0.05", 1), ("30%", 0)):
        status, out, _ = compare(old, new, "--fail-over", limit)
        assert status == expected, limit
    status, out, err = compare(old, new)
    assert (status, err) == (0, "") and out.splitlines()[-1] == "3 timings: 1 slower, 2 equivalent"
    (slower,) = (line.rstrip() for line in out.splitlines() if line.startswith("slower"))
    assert slower.endswith("cell 2, inference, float32, batch 8")
    for margin, counted in (("0.1%", "1 slower, 2 undecided"), ("90%", "1 slower, 2 equivalent")):
        status, out, _ = compare(old, new, "--fail-over", "5%", "--equivalent-within", margin)
        assert status == 1 and f"3 timings: {counted}; 1 regression beyond 5 %" in out, "the margin moves no gate"
    assert compare(old, new, "--equivalent-within", "0")[0] == 2


def test_benchmarks_of_pytest_are_compared_by_their_rounds(benchmarked: Path, tmp_path: Path, compare: Compare) -> None:
    """One was slower, and one of 300 rounds, so in batches, is slower by what is planted."""
    old = benchmarked / "old.json"
    status, out, err = compare(old, benchmarked / "slow.json", "--fail-over", "40%")
    (row,) = (line for line in out.splitlines() if SLEEP in line)
    assert (status, err) == (1, "") and row.startswith("slower, regression")
    assert SUM in out and "different machines" not in out
    new = changed(old, tmp_path / "new.json", slower(SUM, 3.0))  # far beyond what other tests beside it disturb
    for limit, expected in (("5%", 1), ("250%", 0)):
        status, out, _ = compare(old, old, new, "--fail-over", limit)
        (row,) = (line for line in out.splitlines() if SUM in line and line.startswith("slower"))
        assert status == expected and "3.000 (" in row and "C against A: 2 timings: 1 slower, 1 identical" in out


def test_another_machine_of_pytest_benchmark_is_named_and_not_its_node(
    benchmarked: Path, tmp_path: Path, compare: Compare
) -> None:
    def change(content: dict[str, Any]) -> None:
        content["machine_info"] |= {"node": "secret-name", "python_version": "4.0.0"}
        content["machine_info"]["cpu"] |= {"brand_raw": "Other CPU", "hz_actual_friendly": "1 Hz"}
        content["commit_info"] = {"id": "89abcdef0123456789", "dirty": True}

    new = changed(benchmarked / "old.json", tmp_path / "new.json", change)
    status, out, _ = compare(benchmarked / "old.json", new)
    assert status == 0 and "Other CPU in B" in out
    assert "4.0.0 in B" in out and "89abcdef0123 with changes in B" in out
    assert "secret-name" not in out and "1 Hz" not in out
    nothing = changed(new, tmp_path / "nothing.json", lambda content: content.pop("machine_info"))
    assert "were not recorded with every result: B" in compare(new, nothing)[1]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c["benchmarks"][0].pop("stats"), "run pytest with --benchmark-save-data"),
        (lambda c: c["benchmarks"][0]["stats"].update(data=[]), "has no raw rounds (stats.data)"),
        (lambda c: c["benchmarks"][0]["stats"].update(data=[1.0, "2"]), "are not positive, finite seconds"),
        (lambda c: c["benchmarks"][0]["stats"].update(data=[float("nan")]), "are not positive, finite seconds"),
        (lambda c: c["benchmarks"][0]["stats"].update(data=[0.0]), "are not positive, finite seconds"),
        (lambda c: c["benchmarks"][0].pop("fullname"), "benchmark 0 has no full name"),
        (lambda c: c["benchmarks"].append(c["benchmarks"][0]), f"{SLEEP} is there twice"),
        (lambda c: c.pop("benchmarks"), "not what pytest-benchmark writes"),
        (lambda c: c.update(benchmarks=[]), "nothing to compare: 2 timings"),
    ],
)
def test_a_broken_benchmark_file_is_a_message_and_status_2(
    benchmarked: Path, tmp_path: Path, compare: Compare, change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    new = changed(benchmarked / "old.json", tmp_path / "new.json", change)
    status, out, err = compare(benchmarked / "old.json", new)
    assert (status, out) == (2, "") and err.startswith("vitbench: ") and err.count("\n") == 1
    assert expected in err


def test_inputs_that_cannot_be_compared(benchmarked: Path, tmp_path: Path, compare: Compare) -> None:
    study, empty, text = write(tmp_path / "A", cells(1)), tmp_path / "empty", tmp_path / "text.json"
    empty.mkdir()
    text.write_text("{no JSON")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    old = benchmarked / "old.json"
    for arguments, expected in (
        ((study, empty), "holds no study (no study.json)"),
        ((study, tmp_path / "absent"), "does not exist"),
        ((old, text), "not JSON: Expecting property name"),
        ((old, tmp_path / "binary.json"), "not JSON"),
        ((old, study / "study.json"), "of a study, give the folder"),
        ((study, old), "two of one kind can be compared"),
        ((old, benchmarked / "without-rounds.json"), "has no raw rounds (stats.data)"),
        ((study, write(tmp_path / "B", {"cell 9": Timed()})), "nothing to compare: 1 timing"),
        ((study,), "Missing argument 'NEW'"),
    ):
        status, out, err = compare(*arguments)
        assert (status, out) == (2, "") and expected in err and "Traceback" not in err, arguments


@pytest.mark.parametrize("limit", ["5", "0%", "-5%", "nan", "inf%", "%", "five", "5,0%", "9" * 400 + "%"])
def test_a_limit_that_is_no_percentage_is_a_mistake_in_usage(tmp_path: Path, compare: Compare, limit: str) -> None:
    study = write(tmp_path / "A", cells(1))
    status, out, err = compare(study, study, "--fail-over", limit)
    assert (status, out) == (2, "") and "Usage:" in err and 'write "5%" or "0.05"' in err


def test_a_narrow_terminal_shows_all_of_it(tmp_path: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    width = 40
    monkeypatch.setenv("COLUMNS", str(width))
    old, new = write(tmp_path / "A", cells(2)), write(tmp_path / "B", cells(2, {2: 1.5}), seed=1)
    plain = compare(old, new, "--fail-over", "5%")[1]
    assert sum(line.startswith(("slower", "equivalent")) for line in plain.splitlines()) == 2, "one line each"
    assert "\x1b[" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = compare(old, new, "--fail-over", "5%")[1].splitlines()
    start = next(i for i, line in enumerate(lines) if "change" in line)
    table = lines[start : next(i for i, line in enumerate(lines) if "excludes 1" in line)]
    assert all(len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) <= width for line in table)
    assert not any("…" in line for line in table), "folded, not cut off"
    assert any("equivalent" in line for line in table) and any("regression" in line for line in table)


def test_three_studies_are_printed_against_the_first_and_rendered(
    tmp_path: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = "results/one", "results/two", "results/three"
    for seed, (path, timings) in enumerate(zip(paths, (cells(3), cells(3, {2: 1.5}), cells(2)), strict=True)):
        write(tmp_path / path, timings, seed=seed)
    status, out, err = compare(*paths)
    assert (status, err) == (0, "") and out.startswith("A = one\nB = two\nC = three\n")
    rows = [line.split()[0] for line in out.splitlines() if "cell 2," in line]
    assert rows == ["slower", "equivalent"]
    assert "C against A: 3 timings: 2 equivalent, 1 only in A" in out
    assert out.splitlines()[-1] == "reports/compare-one+two+three/index.html"
    assert (tmp_path / "reports" / "compare-one+two+three" / "report.md").is_file()
    status, out, _ = compare(*paths, "--fail-over", "5%")
    assert status == 1 and "slower, regression" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("file.json", "--out", "page"), "file.json is a file: --out writes a page of studies"),
        (("one", "--out", "page"), "two studies, or one that ran on two devices"),
        (("one",), "one alone is nothing to compare"),
        (("one", "file.json", "--out", "page"), "file.json is a file: --out writes a page of studies"),
        (("one", "one", "file.json"), "two of one kind can be compared"),
        (("one", "one", "--out", "taken"), "no report of vitbench's"),
    ],
)
def test_what_is_no_page_is_refused(
    tmp_path: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "one", cells(1))
    (tmp_path / "file.json").write_text("{}")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "index.html").write_text("mine")
    status, _, err = compare(*arguments)
    assert status == 2 and message in " ".join(err.split())
