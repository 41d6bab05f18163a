"""The site of the docs: it is built without a warning, has every public name, and loads nothing from elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vitbench
from tests.conftest import REPOSITORY

pytest.importorskip("mkdocs")
PARTS = ("docs", "mkdocs.yml", "README.md", "tools", "vitbench", "reports/reference")


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=root, env=quiet, capture_output=True, text=True, timeout=300, check=False)


def test_it_is_built_and_has_every_public_name(tmp_path: Path) -> None:
    done = build(REPOSITORY, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "api" / "index.html").read_text()
    names = [name for name in vitbench.__all__ if name != "stats"]
    assert not [name for name in [*names, "compare"] if f">{name}<" not in re.sub(r"\s", "", reference)]
    pages = [page.read_text() for page in (tmp_path / "site").rglob("*.html")]
    assert len(pages) > 12
    loaded = {
        each for page in pages for each in re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="(https?:[^"]+)', page)
    }
    assert loaded == set()
    first = (tmp_path / "site" / "index.html").read_text()
    assert 'src="pictures/' in first and "Why not a for-loop" in first


@pytest.mark.slow
def test_a_broken_link_ends_it(tmp_path: Path) -> None:
    for part in PARTS:
        copy = tmp_path / "copy" / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        source = REPOSITORY / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    page = tmp_path / "copy" / "docs" / "api.md"
    page.write_text(page.read_text() + "\n::: vitbench.Studies\n")
    done = build(tmp_path / "copy", tmp_path / "site")
    assert done.returncode != 0 and "vitbench.Studies" in done.stderr
