"""A record that was written once says what it said then. Forms that no release has written are refused by name."""

from pathlib import Path

import pytest

from vitbench.store import SCHEMA, TimeValues, TrainValues, TuneValues
from vitbench.store.record import BadRecord, from_json

FILES = sorted((Path(__file__).parent / "golden").glob("schema-*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_f24_a_record_says_what_it_said(file: Path) -> None:
    record = from_json(file.read_bytes())
    _, version, kind, state = file.stem.split("-")
    assert (str(record.schema_version), record.trial.kind, record.state) == (version, kind, state)
    assert record.environment is not None
    if state == "ok":
        assert isinstance(record.values, {"train": TrainValues, "tune": TuneValues, "time": TimeValues}[kind])
    assert from_json(record.to_json()) == record


def test_f24_a_record_of_another_form_is_refused_by_name() -> None:
    text = FILES[0].read_text()
    assert f'"schema_version": {SCHEMA}' in text
    with pytest.raises(BadRecord, match=rf"schema version {SCHEMA - 1}, and this vitbench reads {SCHEMA}"):
        from_json(text.replace(f'"schema_version": {SCHEMA}', f'"schema_version": {SCHEMA - 1}'))
