"""The file map in docs/architecture.md is that of the package."""

from tools import file_map


def test_every_module_is_in_the_map_with_its_first_line() -> None:
    page = file_map.PAGE.read_text(encoding="utf-8")
    assert page == file_map.written(page), "python -m tools.file_map writes it anew"
    lines = [line for line in file_map.file_map().splitlines() if line.startswith("- ")]
    assert len(lines) == sum(path.name != "__init__.py" for path in file_map.PACKAGE.rglob("*.py"))
    assert not [line for line in lines if line.endswith(": ")], "each says what it is"
