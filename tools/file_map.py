"""File map: every package and module with its first line, written into docs/architecture.md.

python -m tools.file_map
"""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "vitbench"
PAGE = PACKAGE.parent / "docs" / "architecture.md"
HEADING = "## File map\n"


def file_map() -> str:
    """The section: a list for each package, a line for each module in it."""
    lines = [HEADING, "Written by `python -m tools.file_map` from the first line of each file.\n"]
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        name = folder.relative_to(PACKAGE.parent).as_posix()
        about = _first_line(folder / "__init__.py") if (folder / "__init__.py").exists() else ""
        lines.append(f"\n### `{name}/`\n\n{about}\n" if about else f"\n### `{name}/`\n")
        lines += [
            f"- `{path.name}`: {_first_line(path)}"
            for path in sorted(folder.glob("*.py"))
            if path.name != "__init__.py"
        ]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with its map as it is now; the map is the last section."""
    return page.partition(HEADING)[0] + file_map()


def _first_line(path: Path) -> str:
    """Summary of a file in its own words, without the name that it begins with."""
    text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    name, colon, rest = text.partition(": ")
    is_name = colon and name.replace(" ", "_").lower() in (path.stem, path.parent.name)
    return (rest[:1].upper() + rest[1:]) if is_name else text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
