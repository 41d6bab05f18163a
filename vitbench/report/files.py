"""Files: what a report consists of, gathered in memory and written when it is whole."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pandas as pd

from vitbench.report.markdown import Md, csv, escape

PAGE = "report.md"
MARK = "<!-- Rendered by vitbench from the study's records; rendered again it is overwritten. -->"
"""First line of every report: by it a later rendering knows that a folder's figures and tables are its own."""
KINDS = {"figures": ".png", "tables": ".csv"}


class Files:
    """Relative path → content of a report in the making."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def table(self, name: str, frame: pd.DataFrame) -> Md:
        """Add ``tables/<name>.csv``; returns a link to it."""
        path = f"tables/{name}.csv"
        self.contents[path] = csv(frame).encode("utf-8", errors="replace")
        return Md(f"[{path}]({path})")

    def picture(self, name: str, png: bytes, alt: str) -> Md:
        """Add ``figures/<name>.png``; returns the picture with its description for those who do not see it."""
        path = f"figures/{name}.png"
        self.contents[path] = png
        return Md(f"![{escape(alt)}]({path})")

    def write(self, out: Path, page: str) -> Path:
        """Write all files, the page last, and remove the pictures and tables that an earlier rendering left.

        Each file is replaced as a whole, so that a reader never sees half of one. Returns the page's path.
        """
        ours = _is_ours(out / PAGE)
        for path, content in self.contents.items():
            _replace(out / path, content)
        _replace(out / PAGE, page.encode("utf-8", errors="replace"))
        for folder, kind in KINDS.items():
            for file in sorted((out / folder).glob(f"*{kind}")) if ours else []:
                if f"{folder}/{file.name}" not in self.contents:
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
