"""Files: what a report consists of, gathered in memory and written when it is whole."""

import functools
import os
import secrets
import shutil
import tempfile
import weakref
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from vitbench.errors import UserError
from vitbench.report.document import Document, Figure, Forest
from vitbench.report.figures.charts import Chart, Draw, Drawn, Picture, Tiles, drawn
from vitbench.report.figures.colours import alone
from vitbench.report.formats import html, markdown
from vitbench.report.formats.latex import TEX_MARK
from vitbench.report.formats.markdown import MARK
from vitbench.report.text import Md, escape, printable, unique

TEXT, PAGE = "report.md", "index.html"
OURS = b'<meta name="generator" content="vitbench">'  # In the head of every page of ours

PART = 50_000  # Rows of a CSV that are written at once: a million take a gigabyte beside their frame

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class ReportError(UserError):
    """A report's folder that cannot be written, or that holds somebody else's page. The message says which."""


class Files:
    """Relative path → content of a report in the making."""

    def __init__(self, draw: Draw = drawn) -> None:
        self.draw = draw
        self.contents: dict[str, Callable[[Path], object]] = {}  # Relative path → writes it to a file

    def table(self, name: str, frame: pd.DataFrame) -> Md:
        """Add ``tables/<name>.csv``; returns a link to it."""
        return self._numbers(f"tables/{name}.csv", frame)

    def picture(self, picture: Picture) -> Figure:
        """Add ``figures/<name>.png``, ``.svg`` and ``.csv``."""
        files, made = self._chart(picture.name, picture.chart)
        alt = printable(picture.alt)
        return Figure(files["PNG"], alt, escape(picture.caption), files, lambda: made().svg)

    def forest(self, name: str, forest: Forest) -> Forest:
        """Add a forest plot as ``figures/<name>.png``, ``.svg`` and ``.csv``; returns it with their paths."""
        return replace(forest, files=self._chart(name, forest)[0])

    def _chart(self, name: str, chart: Chart) -> tuple[dict[str, str], Callable[[], Drawn]]:
        """Add the files of a chart, numbered where its name is taken; returns paths by kind, and what draws it once."""
        name = unique(name, {Path(path).stem for path in self.contents if path.startswith("figures/")})
        files = {kind: f"figures/{name}.{kind.lower()}" for kind in ("PNG", "SVG", "CSV")}
        numbers, made = chart.frame, functools.cache(lambda: self.draw(chart))
        if len(numbers) or not isinstance(chart, Tiles):
            self._numbers(files["CSV"], numbers)
        else:  # a sheet of images alone shows no numbers
            del files["CSV"]
        self._add(files["PNG"], lambda file: file.write_bytes(made().png))
        self._add(files["SVG"], lambda file: file.write_text(alone(made().svg), encoding="utf-8"))
        return files, made

    def image(self, name: str, png: Callable[[], bytes], alt: str, caption: str) -> Figure:
        """Add ``figures/<name>.png``, a picture that is no chart."""
        path = f"figures/{name}.png"
        self._add(path, lambda file: file.write_bytes(png()))
        element, files = '<img src="data:image/png;base64,{}">', {"PNG": path}
        return Figure(path, printable(alt), escape(caption), files, lambda: element.format(b64encode(png()).decode()))

    def export(self, folder: str, files: Mapping[str, str | bytes]) -> None:
        """Add ``<folder>/<name>``, which is in another language or form than the page."""
        for name, content in files.items():
            whole = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
            self._add(f"{folder}/{name}", functools.partial(Path.write_bytes, data=whole))

    def write(self, out: Path, document: Document) -> Path:
        """Write all files, text and page last, and remove the pictures and tables that an earlier rendering left.

        Each file is replaced as a whole, so that a reader never sees half of one. Returns the page's path.

        Raises:
            ReportError: where the folder cannot be written, or holds a page of somebody else's.
        """
        for name, whole in ((TEXT, markdown.text(document)), (PAGE, html.page(document))):
            self._add(name, functools.partial(Path.write_text, data=whole, encoding="utf-8", errors="replace"))
        try:
            for path, content in self.contents.items():
                content(self._spooled(path))
            for name, mark in ((PAGE, OURS), (TEXT, MARK.encode())):
                if (out / name).exists() and mark not in (out / name).read_bytes()[:4096]:
                    raise ReportError(f"{out}: its {name} is no report of vitbench's; give another folder with --out")
            stale = _stale(out, self.contents) if (out / TEXT).exists() else []
            for path in self.contents:
                _replace(out / path, self._spooled(path))
            for file in stale:
                file.unlink()
        except OSError as error:
            raise ReportError(f"{out}: cannot be written: {error.strerror}") from error
        return out / PAGE

    def _add(self, path: str, content: Callable[[Path], object]) -> None:
        assert path not in self.contents, f"two contents of one report are called {path}"
        self.contents[path] = content

    def _numbers(self, path: str, numbers: pd.DataFrame) -> Md:
        try:
            with self._spooled(path).open("w", encoding="utf-8", errors="replace", newline="") as stream:
                csv(numbers, stream)
        except OSError as error:
            where = tempfile.gettempdir()
            raise ReportError(f"{where}: a report's numbers cannot be written: {error.strerror}") from error
        self._add(path, lambda _: None)
        return Md(f"[{path}]({path})")

    @functools.cached_property
    def _spool(self) -> Path:
        """Folder of files until all are made: in memory the numbers of a large study would take gigabytes."""
        folder = tempfile.mkdtemp(prefix="vitbench-report-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def _spooled(self, path: str) -> Path:
        file = self._spool / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return file


def _stale(out: Path, contents: Collection[str]) -> list[Path]:
    """Files of an earlier rendering that this one does not write: pictures, their numbers, and tables.

    An export that is not asked for this time stays as it is.
    """
    pictures = {file.stem for file in out.glob("figures/*.png")}
    ours = [
        file for file in out.glob("figures/*.*") if file.stem in pictures and file.suffix in (".png", ".svg", ".csv")
    ]
    ours += out.glob("tables/*.csv")
    exported = {path.partition("/")[0] for path in contents}
    if "latex" in exported:
        ours += [file for file in out.glob("latex/*.tex") if file.read_bytes().startswith(TEX_MARK.encode())]
    if "tensorboard" in exported:
        ours += out.glob("tensorboard/**/events.out.tfevents.*.vitbench")
    return [file for file in ours if file.relative_to(out).as_posix() not in contents]


def _replace(path: Path, made: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        shutil.copyfile(made, temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def csv(frame: pd.DataFrame, stream: TextIO) -> None:
    """Write a frame as CSV that a spreadsheet opens without computing anything: numbers as they are, text as text.

    A ``'`` goes before text that begins with one of ``= + - @``, a tab or a carriage return (CWE-1236).
    """
    safe = frame.copy(deep=False)
    for place in range(safe.shape[1]):
        column = safe.iloc[:, place]
        if column.dtype.kind not in "biufc" and not _is_plain(column):
            safe.isetitem(place, list(column.map(_as_text, na_action="ignore")))
    safe.columns = pd.Index([str(_as_text(name)) for name in safe.columns])
    safe.to_csv(stream, index=False, chunksize=PART, lineterminator="\n", float_format="%.10g")


def _is_plain(column: "pd.Series[Any]") -> bool:
    """Whether a column is of text that stands in a file as it is."""
    text = pd.api.types.infer_dtype(column, skipna=True) == "string"
    return text and all(_as_text(value) is value for value in column.dropna().unique())


def _as_text(value: object) -> object:
    """A cell of a column of text; a number among text stays a number."""
    if isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    guarded = f"'{text}" if text.startswith(_FORMULA) else text
    return guarded.replace("\r", " ")  # which some readers take for the end of the row
