"""The harness's own examination: effects that are known to be there are found, and none where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.report.markdown import read_page
from vitbench.store import StudyFolder


@pytest.mark.slow
def test_planted_effects_are_found_and_planted_nulls_are_not_called_a_difference(tmp_path: Path) -> None:
    """With a master seed that nothing was chosen on."""
    suite = str(REPOSITORY / "ablations" / "planted.toml")
    run = ["run", suite, "--results", "study", "--device", "cpu", "--workers", "2", "--set", "suite.seed=3"]
    for command in (run, ["report", "study", "--out", "report"]):
        line = [sys.executable, "-m", "vitbench", *command]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=1500, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    facts = StudyFolder.read(tmp_path / "study").info.facts
    rows = {r["claim"]: r for r in read_page(tmp_path / "report").table("claim", "Claims")}
    assert len(rows) == len(facts) == 11
    for hypothesis in facts:
        row = rows[hypothesis.claim]
        if hypothesis.expected == "equal":
            assert row["verdict"] in ("equivalent", "undecided"), f"a planted null was called {row['verdict']}"
        else:
            assert row["verdict"] == "worse" and row["outcome"].startswith("reproduced"), hypothesis.claim
