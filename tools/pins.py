"""Pins: every package that vitbench is tested with, by version and by the hash of its files.

    python -m tools.pins            # writes requirements/{run,test,pip}.txt from what is installed here

The package index is asked for the hashes, and no file is downloaded. A package is pinned with the wheels that Linux on
x86-64 takes with Python 3.11 to 3.13, on which the tests run, and with its source where it has no such wheel.
"""

import importlib.metadata
import json
import re
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

INDEX = "https://pypi.org/simple"
FOLDER = Path(__file__).parent.parent / "requirements"
BUILD = ("setuptools",)  # What an editable install builds with, without a network
PYTHONS = re.compile(r"(py3|cp31[123]|py31[123]|py2\.py3)$|abi3")
PLATFORMS = re.compile(r"any|(many)?linux\w*_x86_64")
HEAD = "# Made by `python -m tools.pins`; {count} packages, {gb:.1f} GB to download.\n"


def main() -> None:
    """Write the files."""
    for name, packages in (("pip", {"pip"}), ("run", needed()), ("test", needed("dev"))):
        (FOLDER / f"{name}.txt").write_text(pinned(sorted(packages)), encoding="utf-8")


def needed(extra: str = "") -> set[str]:
    """The packages that vitbench needs, with those that they need, as they are installed here."""
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    more = project["optional-dependencies"]
    left, seen = [*project["dependencies"], *more.get(extra, ())], {(name, "") for name in BUILD}
    while left:
        requirement = Requirement(left.pop())
        name = canonicalize_name(requirement.name)
        for asked in ("", *requirement.extras):
            if (name, asked) in seen:
                continue
            seen.add((name, asked))
            if name == project["name"]:
                left += more.get(asked, ())
                continue
            each = [Requirement(text) for text in importlib.metadata.requires(name) or ()]
            left += [str(r) for r in each if r.marker is None or r.marker.evaluate({"extra": asked})]
    return {name for name, _ in seen} - {project["name"]}


def pinned(packages: list[str]) -> str:
    """The lines of a requirements file."""
    lines, size = [], 0
    for package in packages:
        version = importlib.metadata.version(package)
        files = [file for file in asked(package) if fits(file["filename"], version)]
        wheels = [file for file in files if file["filename"].endswith(".whl")]
        if not files:
            sys.exit(f"{package} {version}: the index has no file of it")
        hashes = sorted(file["hashes"]["sha256"] for file in wheels or files)
        lines.append(" \\\n".join([f"{package}=={version}", *(f"    --hash=sha256:{each}" for each in hashes)]))
        size += max(file.get("size") or 0 for file in wheels or files)
    return HEAD.format(count=len(packages), gb=size / 1e9) + "\n".join(lines) + "\n"


def asked(package: str) -> list[dict[str, Any]]:
    """Files of a package, as the index knows them."""
    request = urllib.request.Request(f"{INDEX}/{package}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        files: list[dict[str, Any]] = json.load(answer)["files"]
    return files


def fits(file: str, version: str) -> bool:
    """Whether a file is of a version, and one that this platform takes."""
    try:
        if not file.endswith(".whl"):
            return str(parse_sdist_filename(file)[1]) == version
        _, of, _, tags = parse_wheel_filename(file)
    except ValueError:  # what pip passes over, too
        return False
    return str(of) == version and any(
        PLATFORMS.fullmatch(tag.platform) and (PYTHONS.search(tag.interpreter) or tag.abi == "abi3") for tag in tags
    )


if __name__ == "__main__":
    main()
