"""The reports that this repository ships are what their records give."""

import io
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import REPOSITORY
from tests.report.builders import reference, render
from vitbench.config.trial import TrainTrial
from vitbench.report.output import Files
from vitbench.report.study_report import compose
from vitbench.report.text import MINUS
from vitbench.report.view import View
from vitbench.store import StudyFolder

STUDIES = sorted(p.parent for p in (REPOSITORY / "results" / "reference").glob("*/study.json"))


@pytest.mark.parametrize("folder", STUDIES, ids=lambda p: p.name)
def test_everything_is_rendered_again_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    """Pictures too, where those of requirements/run.txt draw them: another matplotlib may draw a letter otherwise.

    Those of pixels but for shades: a logarithm's last digit depends on the processor, and with it the edge of a mark.
    """
    study = StudyFolder.read(folder)
    page = render(study, tmp_path / folder.name)
    assert study.damaged == []
    shipped = REPOSITORY / "reports" / "reference" / folder.name
    made = {p.relative_to(page.parent) for p in page.parent.rglob("*") if p.is_file()}
    assert made == {p.relative_to(shipped) for p in shipped.rglob("*") if p.is_file()}
    for file in made:
        pair = [(folder / file).read_bytes() for folder in (page.parent, shipped)]
        if not the_same_libraries_draw():
            pair = [re.sub(rb"<svg .*?</svg>", b"<svg>", content, flags=re.DOTALL) for content in pair]
        if file.suffix == ".png":
            assert not the_same_libraries_draw() or looks_like(*pair), file
        else:
            assert pair[0] == pair[1], file


@pytest.mark.parametrize("name", ["positions-small", "resolution-small"])
@pytest.mark.parametrize("seeds", [0, 1, 3])
def test_a_study_with_looks_has_a_report_before_its_first_look(seeds: int, name: str, tmp_path: Path) -> None:
    whole = reference(name).study
    shutil.copy(whole.path / "study.json", tmp_path / "study.json")
    study = StudyFolder.read(tmp_path)
    first = study.info.looks.seeds[:seeds] if study.info.looks else ()
    (tmp_path / "records").mkdir()
    for record in (record for records in whole.records().values() for record in records):
        if isinstance(record.trial, TrainTrial) and record.trial.seed in first:
            study.write(record)
    sections = {section.title for section in compose(View(study), Files()).sections}
    assert ("Effects" in sections) == (seeds > 0) and "How to read this" in sections


def test_what_is_planted_is_found_and_nothing_else() -> None:
    """Every interaction that is there, and no difference where the truth is none."""
    (conclusions,) = reference("planted").conclusions
    assert {tested.outcome for tested in conclusions.hypotheses} == {"reproduced", "reproduced, within the margin"}
    planted = {f"task: {task} only {MINUS} colour only by change: no {part} {MINUS} base"
               for task in ("position", "relation") for part in ("positions", "attention")}  # fmt: skip
    verdicts = {each.comparison.label: each.verdict for each in conclusions.interactions}
    assert planted <= verdicts.keys()
    assert verdicts == {label: "worse" if label in planted else "equivalent" for label in verdicts}


def looks_like(*pictures: bytes) -> bool:
    """Whether no pixel differs by more than an eighth of what lies between black and white."""
    first, second = (np.asarray(Image.open(io.BytesIO(each)).convert("RGB"), dtype=np.int16) for each in pictures)
    return first.shape == second.shape and int(np.abs(first - second).max()) <= 32


def the_same_libraries_draw() -> bool:
    pins = (REPOSITORY / "requirements" / "run.txt").read_text()
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", pins, flags=re.MULTILINE))
    return all(version(name) == pinned[name] for name in ("matplotlib", "pillow", "seaborn"))


def test_the_readme_shows_two_pictures_and_leads_to_each_of_them() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    names = re.findall(r"\]\(reports/reference/([^/]+)/report\.md\) \|", readme)
    assert STUDIES and {folder.name for folder in STUDIES} == set(names)
    assert len(re.findall(r"!\[[^\]]+\]\(reports/reference/[^)]+\.png\)", readme)) >= 2
