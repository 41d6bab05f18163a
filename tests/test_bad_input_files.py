"""Bad files: names that are markup, foreign results, weights, images (I13 to I20). Nothing read is run."""

import json
import math
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import vitbench
from tests.bad_input import Evil, refused_here, suite_file
from tests.report.builders import CellPlan, Plan, build, render
from tests.report.markdown import csv_text, read_page
from tests.small import MODEL, SUITE, TRAIN_VALUES, record, time_trial
from tests.test_security import HOSTILE
from vitbench.cli.console import Terminal
from vitbench.cli.overview import print_status
from vitbench.config import DataSpec, ModelSpec
from vitbench.config.base import digest
from vitbench.data import catalog
from vitbench.data.images import DataSet, Images
from vitbench.data.load import checked, prepare, read
from vitbench.model.weights import WeightsError, load_weights, read_spec, save_weights
from vitbench.report.text import escape
from vitbench.store import StudyFolder
from vitbench.store.record import SCHEMA, BadRecord, from_json

FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1"]
MARKED = ["a|b|c", "a_b_", "back\\slash", "`code`", "two\nlines", "\r\n| x |", *HOSTILE[:6]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report of a study whose cells have such names, and failed for such reasons; others: tests/test_security.py."""
    folder = tmp_path_factory.mktemp("strange")
    plan = Plan([CellPlan(text, {"depth": n}) for n, text in enumerate([*FORMULAS, *MARKED], 1)], time=False,
                state=lambda c, k, s: ("failed", c.label))  # fmt: skip
    return render(build(folder / "study", plan), folder / "report").parent


@pytest.mark.xdist_group("strange names")
def test_i14_formulas_are_text_to_a_spreadsheet(report: Path) -> None:
    assert read_page(report).formulas() == []
    wanted = {f"'{text}".replace("\r", " ") for text in FORMULAS}
    assert wanted <= {r["cell"] for r in read_page(report).csv("trials") if r["cell"] == r["reason"]}


def test_i14_text_is_guarded_and_numbers_are_untouched() -> None:
    frame = pd.DataFrame({"=head": ["=1", "-x", None, "ok"], "n": [-1.5, math.nan, 3.0, 1e7],
                          "mixed": ["-a", -2, None, True], "small": [1e-7, 1.5, 0.0, -2.0]})  # fmt: skip
    assert csv_text(frame).splitlines() == [
        "'=head,n,mixed,small", "'=1,-1.5,'-a,1e-07", "'-x,,-2,1.5", ",3,,0", "ok,10000000,True,-2"
    ]  # fmt: skip


@pytest.mark.xdist_group("strange names")
def test_i15_a_table_keeps_its_columns(report: Path) -> None:
    """What a renderer makes of each: tests/report/test_parts.py."""
    tables = [line for line in (report / "report.md").read_text().splitlines() if line.startswith("|")]
    for text in MARKED:
        assert any(str(escape(text)) in line for line in tables) and "\n" not in escape(text), text
    columns = [len(line.replace("\\\\", "").replace("\\|", "").split("|")) for line in tables]
    heads = [i for i, line in enumerate(tables) if set(line) <= set("|:- ")]
    for start, end in zip(heads, [*heads[1:], len(tables) + 1], strict=True):
        assert len(set(columns[start - 1 : end - 1])) == 1, tables[start - 1 : end - 1]


def foreign(change: Callable[[dict[str, Any]], object]) -> str:
    """A finished record's file in which something was changed, and the checksum made to fit."""
    body = json.loads(record(time_trial(), "ok").to_json())["record"]
    change(body)
    return json.dumps({"sha256": digest(body, 64), "record": body})


def train_values(**changes: object) -> dict[str, object]:
    return {**TRAIN_VALUES, "epochs": [], **changes}


FOREIGN: dict[str, Callable[[dict[str, Any]], object]] = {
    "extra key": lambda body: body.update(command="rm -rf /"),
    "extra key inside": lambda body: body["trial"]["model"].update(depht=3),
    "missing key": lambda body: body.pop("state"),
    "unknown state": lambda body: body.update(state="excellent"),
    "wrong type": lambda body: body.update(attempt="1"),
    "boolean for a number": lambda body: body.update(attempt=True),
    "huge attempt": lambda body: body.update(attempt=10**400),
    "huge count": lambda body: body.update(values=train_values(parameters=10**400)),
    "huge seconds": lambda body: body.update(seconds=1e308),
    "percent above 100": lambda body: body.update(values=train_values(test_accuracy_pct=101.0)),
    "negative": lambda body: body.update(seconds=-1.0),
    "another trial's id": lambda body: body.update(trial_id="0" * 20),
    "an id that is a path": lambda body: body.update(trial_id="../../x"),
    "another trial": lambda body: body["trial"].update(batch_size=9),
    "version true": lambda body: body.update(schema_version=True),
    "version text": lambda body: body.update(schema_version="3"),
    "version newer": lambda body: body.update(schema_version=SCHEMA + 1),
}


@pytest.mark.parametrize("how", FOREIGN)
def test_i16_foreign_records_are_refused_although_their_checksum_fits(how: str) -> None:
    assert from_json(foreign(lambda body: None)).state == "ok"
    with pytest.raises(BadRecord) as caught:
        from_json(foreign(FOREIGN[how]))
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)


TEXTS: dict[str, str] = {
    "deep": "[" * 100_000,
    "huge integer": '{"sha256": "", "record": {"schema_version": ' + "9" * 10_000 + "}}",
    "nan": '{"sha256": "", "record": {"schema_version": NaN}}',
    "mismatching hash": foreign(lambda body: None).replace('"seconds": 1.0', '"seconds": 2.0'),
    "extra key beside": foreign(lambda body: None)[:-1] + ', "run": "me"}',
    "not JSON": "import os",
}


@pytest.mark.parametrize("how", TEXTS)
def test_i16_foreign_files_are_set_aside_by_name_and_counted(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study = build(tmp_path / "study", Plan([CellPlan("a", {})], time=False))
    bad = study.path / "records" / "foreign.json"
    bad.write_text(TEXTS[how])
    opened = StudyFolder.read(study.path)
    assert len(opened.records()) == 1
    assert len(opened.damaged) == 1 and opened.damaged[0].startswith("foreign.json: ")
    assert not bad.exists() and bad.with_name("foreign.json.corrupt").exists()
    print_status(opened, Terminal())
    output = capsys.readouterr().out
    assert "1 trial: 1 ok" in output and "set aside foreign.json: " in output


def test_i16_a_record_that_was_copied_counts_once(tmp_path: Path) -> None:
    study = build(tmp_path / "study", Plan([CellPlan("a", {})], time=False, state=lambda c, k, s: ("failed", "x")))
    (file,) = (study.path / "records").iterdir()
    file.with_name(f"copy-of-{file.name}").write_bytes(file.read_bytes())
    opened = StudyFolder.read(study.path)
    ((trial_id, attempts),) = opened.records().items()
    assert len(attempts) == 1, "a copy is no second attempt"
    assert opened.damaged == [f"{trial_id}, attempt 1: the same record in two files"]


@pytest.fixture
def model() -> torch.nn.Module:
    return vitbench.build(MODEL)


@pytest.mark.parametrize("name", ["model.pt", "model", "model.SAFETENSORS"])
def test_i17_pickled_weights_are_refused_by_suffix_and_never_opened(
    tmp_path: Path, model: torch.nn.Module, name: str
) -> None:
    sentinel = tmp_path / "ran"
    (tmp_path / name).write_bytes(pickle.dumps(Evil(sentinel)))
    with pytest.raises(WeightsError) as caught:
        load_weights(model, tmp_path / name)
    message = "weights must be .safetensors; a checkpoint of another format can run code when read"
    assert str(caught.value) == f"{tmp_path / name}: {message}"
    with pytest.raises(WeightsError, match=r"weights must be \.safetensors"):
        save_weights(model, tmp_path / name)
    assert not sentinel.exists()


@pytest.mark.parametrize("how", ["pickle", "torch.save", "zip", "empty", "text", "truncated", "header of 10^15 bytes"])
def test_i17_what_only_calls_itself_safetensors_is_refused(tmp_path: Path, model: torch.nn.Module, how: str) -> None:
    file, sentinel = tmp_path / "model.safetensors", tmp_path / "ran"
    save_weights(model, file)
    whole = file.read_bytes()
    if how == "torch.save":
        torch.save({"x": Evil(sentinel)}, file)
    elif how == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps(Evil(sentinel)))
    else:
        contents = {"pickle": pickle.dumps(Evil(sentinel)), "empty": b"", "text": b"hello, weights",
                    "truncated": whole[:-100], "header of 10^15 bytes": struct.pack("<Q", 10**15) + b"{}"}  # fmt: skip
        file.write_bytes(contents[how])
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(WeightsError) as caught:
        load_weights(model, file)
    assert str(caught.value).startswith(f"{file}: weights must be .safetensors, and this file is none or is damaged: ")
    assert not sentinel.exists()
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items()), "no half of it was loaded"


def test_i18_the_first_tensor_of_another_shape_is_named_with_both(tmp_path: Path, model: torch.nn.Module) -> None:
    wider = ModelSpec(image_size=16, patch_size=4, dim=64, depth=1, heads=2)
    file = save_weights(vitbench.build(wider), tmp_path / "wide.safetensors")
    first = next(iter(model.state_dict()))
    shape, wide_shape = (tuple(m.state_dict()[first].shape) for m in (model, vitbench.build(wider)))
    with pytest.raises(WeightsError) as caught:
        load_weights(model, file)
    assert str(caught.value) == f"{file}: {first} is {wide_shape}, and the model's is {shape}"


def test_i18_missing_and_unexpected_tensors_are_named(tmp_path: Path, model: torch.nn.Module) -> None:
    tensors = {k: v.clone() for k, v in model.state_dict().items()}
    tensors["extra.weight"] = tensors.pop("head.bias")
    save_file(tensors, tmp_path / "other.safetensors")
    with pytest.raises(WeightsError) as caught:
        load_weights(model, tmp_path / "other.safetensors")
    assert str(caught.value).endswith("other.safetensors: missing: head.bias; unexpected: extra.weight")
    deeper = ModelSpec(image_size=16, patch_size=4, dim=32, depth=9, heads=2)
    file = save_weights(vitbench.build(deeper), tmp_path / "deep.safetensors")
    with pytest.raises(WeightsError, match=r"unexpected: .* and \d+ more$"):
        load_weights(model, file)


def picture(path: Path, size: tuple[int, int] = (16, 16), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(str(path))).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three images of each of two classes, for training and for testing."""
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            for i in range(3):
                picture(tmp_path / "images" / part / name / f"{i}.png")
    return tmp_path / "images"


@pytest.fixture
def spec(tree: Path) -> DataSpec:
    return DataSpec(name="image_folder", path=str(tree))


FOLDER = SUITE.replace('name = "synthetic"\nresize = 16', 'name = "image_folder"\npath = "images"')
FOLDER = FOLDER.replace("train_images = 200\ntest_images = 60\nvalidation_images = 40\n", "")
FOLDER = FOLDER.replace("batch_size = 50", "batch_size = 4").replace("heads = 2", "heads = 2\nnum_classes = 2")


def test_i20_images_of_every_usual_mode_are_read(tree: Path, spec: DataSpec) -> None:
    for i, mode in enumerate(("L", "P", "RGBA", "1", "LA")):
        picture(tree / "train" / "cat" / f"mode{i}.png", mode=mode)
    picture(tree / "train" / "cat" / "inks.jpg", mode="CMYK")
    assert read(spec).train.pixels.shape == (12, 3, 16, 16)


def test_i20_a_corrupt_image_stops_a_run_before_its_first_trial(tmp_path: Path, tree: Path) -> None:
    for i in range(8):
        (tree / "test" / "cat" / f"bad{i}.png").write_bytes(b"")
    message = refused_here(tmp_path, "run", suite_file(tmp_path, base=FOLDER), "--device", "cpu")
    assert message.startswith("8 of 14 images cannot be used:\nimages/test/cat/bad0.png: ")
    assert message.rstrip().endswith("… and 3 more") and not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ([0, 1, 7], 2, "1 label(s) out of range 0 to 1; the first is 7, of image 2"),
        ([0, -1, -1], 2, "2 label(s) out of range 0 to 1; the first is -1, of image 1"),
        ([0, 0, 0], 1, "1 class(es), and telling apart takes two"),
        ([], 2, "there are none"),
    ],
)
def test_i20_what_a_source_gives_is_checked(labels: list[int], classes: int, expected: str) -> None:
    pixels = torch.zeros(len(labels), 3, 4, 4, dtype=torch.uint8)
    good = Images(torch.zeros(1, 3, 4, 4, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
    bad = Images(pixels, torch.tensor(labels, dtype=torch.int64))
    for dataset in (DataSet(bad, good, ("a", "b")[:classes]), DataSet(good, bad, ("a", "b")[:classes])):
        with pytest.raises(catalog.DataError, match="some") as caught:
            checked(dataset, "some")
        assert expected in str(caught.value)


def test_i20_a_file_in_place_of_the_folder_of_images(
    tmp_path: Path, spec: DataSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "images.tar").write_bytes(b"")
    for path in (file, file / "below"):
        monkeypatch.setenv("VITBENCH_DATA", str(path))
        with pytest.raises(catalog.DataError, match=r"images.tar is a file, not a folder for images \(VITBENCH_DATA\)"):
            prepare(spec)


def test_i20_a_cache_of_other_labels_is_no_way_around_the_check(
    tmp_path: Path, spec: DataSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITBENCH_DATA", str(tmp_path / "data"))
    prepare(spec)
    (cache,) = (p for p in (tmp_path / "data").rglob("*.safetensors"))
    parts = {f"{part}.pixels": torch.zeros(6, 3, 16, 16, dtype=torch.uint8) for part in ("train", "test")}
    save_file({**parts, **{f"{part}.labels": torch.arange(6) for part in ("train", "test")}}, cache)
    with pytest.raises(catalog.DataError, match=r"4 label\(s\) out of range 0 to 1; the first is 2, of image 2"):
        prepare(spec)
    for part in ({"train.pixels": torch.zeros(1)}, {f"train.{n}": torch.zeros(1) for n in ("pixels", "labels")}):
        save_file(part, cache)
        assert len(prepare(spec).class_names) == 2, "a cache that lacks tensors is made anew"


def ghostscript(folder: Path) -> Path:
    """A helper program in the path that leaves a trace when it is started."""
    (folder / "bin").mkdir()
    helper = folder / "bin" / "gs"
    helper.write_text(f"#!/bin/sh\ntouch {folder / 'started'}\n")
    helper.chmod(0o755)
    return folder / "started"


def saved_as(kind: str) -> Callable[[Path], object]:
    return lambda path: Image.new("RGB", (16, 16)).save(path, format=kind)


def spoiled_tiff(path: Path) -> None:
    """Where its pixels lie is text: a decoder that does not expect that raises a TypeError."""
    picture(path.with_suffix(".tif")).rename(path)
    content = bytearray(path.read_bytes())
    at = content.index(struct.pack("<HH", 273, 4))
    content[at + 2 : at + 4] = struct.pack("<H", 2)
    path.write_bytes(content)


def deep_png(path: Path) -> None:
    """16 bits in each of three channels, which Pillow cannot write."""
    rows = b"".join(b"\0" + bytes(range(96)) for _ in range(16))
    head = struct.pack(">IIBBBBB", 16, 16, 16, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ))  # fmt: skip


def bomb(path: Path) -> None:
    """A few kilobytes that are 121 million pixels."""
    Image.new("1", (11_000, 11_000)).save(path)


def frames(kind: str) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        two = [Image.new("RGB", (16, 16), (100 * n, 0, 0)) for n in range(2)]
        two[0].save(path, format=kind, save_all=True, append_images=two[1:])

    return write


BAD_IMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "size": (lambda p: picture(p, (16, 20)), "20×16, and the first image is 16×16; set data.resize"),
    "text": (lambda p: p.write_text("no image"), "cannot identify image file"),
    "empty": (lambda p: p.write_bytes(b""), "cannot identify image file"),
    "truncated": (lambda p: p.write_bytes(picture(p, (16, 16)).read_bytes()[:200]), "truncated"),
    "16 bits": (
        lambda p: Image.fromarray(np.full((16, 16), 40_000, dtype=np.uint16)).save(p),
        "has more than 8 bits a channel; convert it",
    ),
    "EPS": (saved_as("EPS"), ""),
    "AVIF": (saved_as("AVIF"), ""),
    "DDS": (saved_as("DDS"), ""),
    "GIF": (saved_as("GIF"), ""),
    "TIFF of text": (spoiled_tiff, ""),
    "bomb": (bomb, "11000×11000, and an image has at most 100,000,000 pixels"),
    "16-bit PNG": (deep_png, "mode RGB has more than 8 bits a channel"),
    "16-bit PPM": (lambda p: p.write_bytes(b"P6 16 16 65535\n" + bytes(16 * 16 * 6)), "more than 8 bits a channel"),
    "APNG": (frames("PNG"), "2 frames, and an image has one"),
    "WebP": (frames("WEBP"), "2 frames, and an image has one"),
    "TIFF": (frames("TIFF"), "2 frames, and an image has one"),
}


@pytest.mark.parametrize("how", BAD_IMAGES)
def test_i20_i28_i29_images_that_cannot_be_used_are_named_and_counted_and_nothing_is_started(
    tmp_path: Path, tree: Path, spec: DataSpec, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    started = ghostscript(tmp_path)
    monkeypatch.setenv("PATH", f"{started.parent / 'bin'}:/usr/bin:/bin")
    write, expected = BAD_IMAGES[how]
    bad = tree / "train" / "dog" / "bad.png"
    write(bad)
    with pytest.raises(catalog.DataError) as caught:
        prepare(spec)
    first, named = str(caught.value).splitlines()
    assert first == "1 of 7 images cannot be used:" and named.startswith(f"{bad}: ") and expected in named
    assert not started.exists(), "a helper program was run on a file from outside"


def test_i29_images_of_16_bits_a_pixel_are_read(tree: Path, spec: DataSpec) -> None:
    """Five or six bits for each colour lose nothing."""
    head = struct.pack("<IiiHHIIiiII", 40, 16, 16, 1, 16, 3, 16 * 32, 1, 1, 0, 0) + struct.pack("<III", 63488, 2016, 31)
    path = tree / "train" / "dog" / "small.bmp"
    path.write_bytes(b"BM" + struct.pack("<IHHI", 14 + len(head) + 512, 0, 0, 14 + len(head)) + head + bytes(512))
    assert len(prepare(spec).class_names) == 2


def test_i29_linked_class_folders_are_read_and_none_is_read_twice(tmp_path: Path, tree: Path, spec: DataSpec) -> None:
    for part in ("train", "test"):
        picture(tmp_path / "elsewhere" / part / "cow.png")
        (tree / part / "cow").symlink_to(tmp_path / "elsewhere" / part)
    prepared = prepare(spec)
    assert prepared.class_names == ("cat", "cow", "dog") and next(iter(prepared.facts.values())).train == 7
    for link in (tree / "train" / "again", tree / "train" / "cat" / "loop"):
        link.symlink_to(tree / "train" if link.name == "loop" else tree / "train" / "cat")
        for ask in (prepare, catalog.identity):
            with pytest.raises(catalog.DataError, match="is the same folder as"):
                ask(spec)
        link.unlink()


def test_i29_val_is_the_test_split_where_there_is_no_test(tree: Path, spec: DataSpec) -> None:
    """As ImageNet's folders are called."""
    expected = next(iter(prepare(spec).facts.values())).test
    (tree / "test").rename(tree / "val")
    assert next(iter(prepare(spec).facts.values())).test == expected > 0
    (tree / "val").rename(tree / "held-out")
    with pytest.raises(catalog.DataError, match="has train/ but neither test/ nor val/"):
        prepare(spec)


def test_i20_a_link_to_an_image_that_is_gone_is_named(tree: Path, spec: DataSpec) -> None:
    (tree / "train" / "cat" / "gone.png").symlink_to(tree / "nowhere.png")
    for ask in (prepare, catalog.identity):
        with pytest.raises(catalog.DataError, match=r"gone\.png: is no file, or a link to one that is gone"):
            ask(spec)


@pytest.mark.parametrize(
    ("write", "name", "message"),
    [
        (picture, "only.png", r"1 class\(es\) without a test image: cow"),
        # Its images may be of a format that is not read; left out, there would be a class less.
        (Path.touch, "only.avif", r"train: 1 class folder\(s\) without an image \(.*\): cow"),
    ],
)
def test_i29_a_class_without_images_is_refused(
    tree: Path, spec: DataSpec, write: Callable[[Path], object], name: str, message: str
) -> None:
    (tree / "train" / "cow").mkdir()
    write(tree / "train" / "cow" / name)
    with pytest.raises(catalog.DataError, match=message):
        prepare(spec)


def test_i31_a_description_of_100_000_tables_in_weights_is_damaged(tmp_path: Path) -> None:
    for text in ("[" * 100_000 + "]" * 100_000, '{"model":' * 100_000, '{"model": {"depth": 1' + "0" * 400 + "}}"):
        file = tmp_path / "model.safetensors"
        save_file({"a": torch.zeros(1)}, file, {"vitbench": text})
        with pytest.raises(WeightsError, match=r"model\.safetensors: "):
            read_spec(file)
