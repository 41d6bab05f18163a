"""Site: a hook of mkdocs, which makes the first page of the README and keeps links within the site.

The docs also link to what is beside them in the repository, such as reports; on the site these are plain text, but for
the pictures of the README, which are copied.
"""

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
    for link in LINK.finditer(text):
        if link["picture"]:
            content = (REPOSITORY / link["target"]).read_bytes()
            files.append(File.generated(config, _picture(link["target"]), content=content))
    moved = LINK.sub(lambda link: _from_root(link, files), text)
    files.append(File.generated(config, "index.md", content=moved))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Links of a page to what is not on the site, as text."""
    folder = posixpath.dirname(page.file.src_uri)
    return LINK.sub(lambda link: _kept(link, folder, files), markdown)


def _picture(target: str) -> str:
    return f"{PICTURES}/{target.replace('/', '-')}"


def _from_root(link: re.Match[str], files: Files) -> str:
    """A link of the README, which stands above the docs' folder."""
    target = _picture(link["target"]) if link["picture"] else link["target"].removeprefix("docs/")
    if "://" in target or files.get_file_from_path(target) is not None:
        return f"{link['picture']}[{link['text']}]({target}{link['anchor'] or ''})"
    return link["text"]


def _kept(link: re.Match[str], folder: str, files: Files) -> str:
    if "://" in link["target"]:
        return link[0]
    target = posixpath.normpath(posixpath.join(folder, link["target"]))
    target = "index.md" if target.endswith("../README.md") else target
    if files.get_file_from_path(target) is None:
        return link["text"]
    return f"{link['picture']}[{link['text']}]({posixpath.relpath(target, folder or '.')}{link['anchor'] or ''})"
