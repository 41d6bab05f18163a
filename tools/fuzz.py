"""Damage studies, images and timings at random, and read them by the command line: nothing but a message may come.

    python -m tools.fuzz results/reference --minutes 60

Each case has a number, from which everything in it is drawn: ``--first 1234 --cases 1`` makes it again. A case takes a
study, packed or not, and changes some of its files: bytes, or values of its JSON under a checksum that fits. Then
`status`, `report --print`, `report` (a case in ten), `plan` and `compare` read it; or a folder of images, or a file of
pytest-benchmark, is damaged and read. A fault is an exception that is no message, a command that takes a minute, or one
that changes a file which it only reads. Its traceback is printed, and its folder is kept.
"""

import contextlib
import hashlib
import io
import json
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from PIL import Image

from vitbench.cli.main import cli
from vitbench.config.base import digest
from vitbench.config.recipe import DataSpec
from vitbench.data.sources import folder as image_folder
from vitbench.errors import UserError
from vitbench.store import StudyFolder

SECONDS = 60  # That a command may take
MOST_RECORDS = 80  # Of a study that cases are made from: a case takes about a second
AWKWARD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 7, 1e308, -1e308, 5e-324, 2**31, 2**63, 10**30, 0.5, "", "a", "\u202e", "<b>&", "\x1b[31m",
    "|`*", "\ud800", "x" * 5000, [], {}, [[]], {"a": None}, "2026-01-01T00:00:00Z", "0001-01-01T00:00:00", "NaN",
)  # fmt: skip


class Slow(Exception):
    """A command that takes too long."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values in some JSON are."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def change_json(draw: random.Random, text: bytes) -> bytes:
    """Some values of a JSON file are others; its checksum, if it has one, fits."""
    wrapper = json.loads(text)
    body = next((key for key in ("record", "entry") if isinstance(wrapper, dict) and key in wrapper), None)
    content = [wrapper[body] if body else wrapper]
    for _ in range(draw.choice((1, 1, 2, 5))):
        *path, last = draw.choice([p for p in places(content) if p])
        holder: Any = content
        for key in path:
            holder = holder[key]
        how = draw.random()
        if how < 0.15 and (isinstance(holder, dict) or len(holder) > 1) and path:
            del holder[last]
        elif how < 0.3:
            holder[last] = json.loads(json.dumps(content[0] if len(str(content[0])) < 9_000 else "self"))
        elif how < 0.5 and isinstance(holder[last], int | float) and not isinstance(holder[last], bool):
            holder[last] = holder[last] * draw.choice((-1, 0, 2, 1e9, 1e-9)) + draw.choice((0, 1))
        else:
            holder[last] = draw.choice(AWKWARD)
    if body:
        wrapper[body] = content[0]
        wrapper["sha256"] = digest(content[0], 64)
        return json.dumps(wrapper).encode()
    return json.dumps(content[0]).encode()


def change_bytes(draw: random.Random, text: bytes) -> bytes:
    """Bytes are flipped, cut, doubled or put elsewhere."""
    content = bytearray(text or b" ")
    for _ in range(draw.choice((1, 1, 3, 30))):
        at, length = draw.randrange(len(content)), draw.choice((1, 2, 8, 100, 4000))
        piece = bytes(content[at : at + length])
        how = draw.randrange(4)
        if how == 0:
            content[at] = draw.randrange(256)
        elif how == 1:
            del content[at : at + length]
        elif how == 2:
            content[at:at] = piece
        else:
            content[at : at + length] = draw.randbytes(length)
        content = content or bytearray(b" ")
    return bytes(content)


def damage(draw: random.Random, file: Path) -> None:
    """Change a file."""
    text = file.read_bytes()
    with contextlib.suppress(ValueError, RecursionError):
        if file.suffix == ".json" and draw.random() < 0.7:
            file.write_bytes(change_json(draw, text))
            return
    file.write_bytes(change_bytes(draw, text))


def digests(folder: Path) -> dict[str, str]:
    """File → its digest."""
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.rglob("*") if f.is_file()}


def command(*arguments: object) -> None:
    """Run a command; its messages, and an exit status that says so, are no fault."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            cli.main([str(a) for a in arguments], prog_name="vitbench", standalone_mode=False)
        except (UserError, click.ClickException, click.exceptions.Exit):
            pass
        except SystemExit as end:
            if end.code not in (None, 0, 1, 2):
                raise


Studies = Sequence[Path]


def a_study(draw: random.Random, studies: Studies, work: Path) -> None:
    """Some files of a study."""
    study = Path(shutil.copytree(draw.choice(studies), work / "study"))
    if draw.random() < 0.3:
        StudyFolder.read(study).pack()
    files = sorted(f for f in study.rglob("*") if f.is_file() and f.suffix != ".toml")
    plan = [f for f in files if f.name == "study.json"]
    for _ in range(draw.choice((1, 1, 2, 4))):
        damage(draw, draw.choice(plan if draw.random() < 0.3 else files))
    before = digests(study)
    command("status", study)
    command("report", study, "--print")
    if draw.random() < 0.1:
        command("report", study, "--out", work / "report", "--export", "latex")
    command("compare", study, draw.choice(studies))
    after = digests(study)
    for name, known in before.items():
        if after.get(name) != known and after.get(f"{name}.corrupt") != known:
            raise AssertionError(f"{name} was changed by a reader")


def images(draw: random.Random, studies: Studies, work: Path) -> None:
    """Some files of a folder of images."""
    for part, name, number in ((p, n, i) for p in ("train", "test") for n in "ab" for i in range(3)):
        kind = draw.choice(("png", "jpeg", "gif", "bmp", "webp", "tiff"))
        file = work / "images" / part / name / f"{number}.{draw.choice((kind, 'png', 'jpg'))}"
        file.parent.mkdir(parents=True, exist_ok=True)
        size = draw.choice(((32, 32), (32, 32), (1, 1), (7, 90)))
        content = io.BytesIO()
        Image.effect_noise(size, 90).convert(draw.choice(("RGB", "RGB", "L"))).save(content, kind)
        file.write_bytes(content.getvalue())
        if draw.random() < 0.3:
            damage(draw, file)
    spec = DataSpec(name="image_folder", path=str(work / "images"), resize=draw.choice((None, 32, 8)))
    with contextlib.suppress(UserError):
        image_folder.read(spec)


def timings(draw: random.Random, studies: Studies, work: Path) -> None:
    """A file of pytest-benchmark."""
    stats = {"data": [draw.uniform(0.1, 0.2) for _ in range(20)], "median": 0.15, "iqr": 0.01, "rounds": 20}
    content = {"benchmarks": [{"name": f"test_{i}", "fullname": f"t.py::test_{i}", "group": None, "params": None,
                               "extra_info": {}, "stats": stats} for i in range(3)],
               "machine_info": {"node": "a", "cpu": {"brand_raw": "b"}}, "version": "5.1.0"}  # fmt: skip
    for name in ("old.json", "new.json"):
        (work / name).write_text(json.dumps(content))
    damage(draw, work / "new.json")
    command("compare", work / "old.json", work / "new.json", "--fail-over", "5%")


KINDS: Mapping[Callable[[random.Random, Studies, Path], None], int] = {a_study: 8, images: 3, timings: 2}
"""Kind of case → how often, beside the others."""


@click.command()
@click.argument("reference", type=click.Path(path_type=Path))
@click.option("--minutes", default=1.0)
@click.option("--first", default=0)
@click.option("--cases", default=10**9)
def fuzz(reference: Path, minutes: float, first: int, cases: int) -> None:
    """Read damaged copies of the studies in the folder REFERENCE, and damaged images and timings."""

    def too_slow(*_: object) -> None:
        raise Slow(f"{SECONDS} s")

    signal.signal(signal.SIGALRM, too_slow)
    studies = [
        f.parent
        for f in sorted(reference.glob("*/study.json"))
        if len(StudyFolder.read(f.parent).attempts()) <= MOST_RECORDS
    ]
    done, faults, end = Counter[str](), 0, time.monotonic() + 60 * minutes
    for number in range(first, first + cases):
        if time.monotonic() > end:
            break
        draw, work = random.Random(number), Path(tempfile.mkdtemp(prefix=f"fuzz-{number}-"))
        kind = draw.choices(list(KINDS), list(KINDS.values()))[0]
        try:
            signal.alarm(SECONDS)
            kind(draw, studies, work)
        except Exception:
            faults += 1
            click.echo(f"case {number}, {kind.__name__}, in {work}:\n{traceback.format_exc()[-2500:]}")
        else:
            shutil.rmtree(work, ignore_errors=True)
        finally:
            signal.alarm(0)
        done[kind.__name__] += 1
    click.echo(f"{sum(done.values()):,} cases ({dict(done)}), {faults} faults")


if __name__ == "__main__":
    fuzz()
