"""Records of every released form are read for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from vitbench.store import SCHEMA, TimeValues, TrainValues, TuneValues
from vitbench.store.record import READ, from_json

FILES = sorted((Path(__file__).parent / "golden").glob("schema-*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_f24_a_record_of_an_earlier_form_says_what_it_said(file: Path) -> None:
    record = from_json(file.read_bytes())
    _, version, kind, state = file.stem.split("-")
    assert (str(record.schema_version), record.trial.kind, record.state) == (version, kind, state)
    assert record.environment is not None
    if state == "ok":
        assert isinstance(record.values, {"train": TrainValues, "tune": TuneValues, "time": TimeValues}[kind])
    assert from_json(record.to_json()) == record


def test_there_are_files_of_each_form() -> None:
    assert {int(f.stem.split("-")[1]) for f in FILES} == set(READ) and max(READ) == SCHEMA
