"""Site: a hook of mkdocs, which makes the first page of the README and keeps links within the site.

The docs also link to what is beside them in the repository, such as reports; on the site these are plain text, but for
the pictures of the README, which are copied.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).parents[1]
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)]*)?\)")
PICTURES = "pictures"


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the first page, and its pictures."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for found in LINK.finditer(text):
        if found["picture"]:
            content = (REPOSITORY / found["target"]).read_bytes()
            files.append(File.generated(config, _picture(found["target"]), content=content))
    moved = LINK.sub(lambda found: _from_root(found, files), text)
    files.append(File.generated(config, "index.md", content=moved))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Links of a page to what is not on the site, as text."""
    folder = posixpath.dirname(page.file.src_uri)
    return LINK.sub(lambda found: _kept(found, folder, files), markdown)


def _picture(target: str) -> str:
    return f"{PICTURES}/{target.replace('/', '-')}"


def _from_root(found: re.Match[str], files: Files) -> str:
    """A link of the README, which stands above the docs' folder."""
    target = _picture(found["target"]) if found["picture"] else found["target"].removeprefix("docs/")
    if "://" in target or files.get_file_from_path(target) is not None:
        return f"{found['picture']}[{found['text']}]({target}{found['anchor'] or ''})"
    return found["text"]


def _kept(found: re.Match[str], folder: str, files: Files) -> str:
    target = posixpath.normpath(posixpath.join(folder, found["target"]))
    target = "index.md" if target.endswith("../README.md") else target
    if "://" in found["target"] or files.get_file_from_path(target) is not None:
        relative = found["target"] if "://" in found["target"] else posixpath.relpath(target, folder or ".")
        return f"{found['picture']}[{found['text']}]({relative}{found['anchor'] or ''})"
    return found["text"]
