"""Files: what a report consists of, gathered in memory and written when it is whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from vitbench.report.charts import Picture
from vitbench.report.markdown import Md, csv, escape
from vitbench.report.studio import Draw, at_once

PAGE = "report.md"
MARK = "<!-- Rendered by vitbench from the study's records; rendered again it is overwritten. -->"
"""First line of every report: by it a later rendering knows that a folder's figures and tables are its own."""
KINDS = {"figures": ".png", "tables": ".csv"}


class Files:
    """Relative path → content of a report in the making.

    Args:
        draw: draws its pictures.
    """

    def __init__(self, draw: Draw = at_once) -> None:
        self.draw = draw
        self.contents: dict[str, Callable[[], bytes]] = {}

    def table(self, name: str, frame: pd.DataFrame) -> Md:
        """Add ``tables/<name>.csv``; returns a link to it."""
        path = f"tables/{name}.csv"
        content = csv(frame).encode("utf-8", errors="replace")
        self.contents[path] = lambda: content
        return Md(f"[{path}]({path})")

    def picture(self, picture: Picture) -> Md:
        """Add ``figures/<name>.png``; returns the picture with its description for those who do not see it."""
        return self.image(picture.name, self.draw(picture.chart), picture.alt)

    def image(self, name: str, png: Callable[[], bytes], alt: str) -> Md:
        """The same of a picture that is no chart."""
        path = f"figures/{name}.png"
        self.contents[path] = png
        return Md(f"![{escape(alt)}]({path})")

    def write(self, out: Path, page: str) -> Path:
        """Write all files, the page last, and remove the pictures and tables that an earlier rendering left.

        Each file is replaced as a whole, so that a reader never sees half of one. Returns the page's path.
        """
        contents = {path: content() for path, content in self.contents.items()}
        ours = _is_ours(out / PAGE)
        for path, content in contents.items():
            _replace(out / path, content)
        _replace(out / PAGE, page.encode("utf-8", errors="replace"))
        for folder, kind in KINDS.items():
            for file in sorted((out / folder).glob(f"*{kind}")) if ours else []:
                if f"{folder}/{file.name}" not in contents:
                    file.unlink()
        return out / PAGE


def _is_ours(page: Path) -> bool:
    try:
        return page.read_text(encoding="utf-8", errors="replace").startswith(MARK)
    except OSError:
        return False


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
