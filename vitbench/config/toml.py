"""TOML files as nested tables: parsed, with keys replaced from the command line, taken apart again, and written."""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vitbench.config.suite_errors import SpecError

MAX_SUITE_BYTES = 1 << 20
MAX_DEPTH = 16  # Tables and arrays inside one another: a suite has six
MAX_DOTS = 1_000  # Dots in a key: the parser takes time and memory that grow with the square of its parts


def parse(path: Path, text: str | None = None) -> dict[str, Any]:
    """The tables of a file, or of its text where that is known, arrays as tuples. Raises SpecError."""
    if path.suffix.lower() in {".yaml", ".yml"}:
        raise SpecError([f"{path.name}: use TOML: suites are TOML, not YAML; see ablations/ for examples"])
    try:
        if text is not None:
            data = text.encode()
        else:
            with path.open("rb") as stream:
                data = stream.read(MAX_SUITE_BYTES + 1)
    except OSError as error:
        raise SpecError([f"{path}: {error.strerror or error}"]) from error
    if len(data) > MAX_SUITE_BYTES:
        raise SpecError([f"{path.name}: larger than {MAX_SUITE_BYTES:,} bytes, which is the most that a suite has"])
    if max(line.partition(b"=")[0].count(b".") for line in data.split(b"\n")) > MAX_DOTS:
        raise SpecError([f"{path.name}: {TOO_DEEP}"])
    try:
        return with_tuples(shallow(tomllib.loads(data.decode("utf-8"))))  # type: ignore[no-any-return]
    except UnicodeDecodeError as error:
        raise SpecError([f"{path.name}: not UTF-8 text (byte {error.start})"]) from error
    except RecursionError as error:
        raise SpecError([f"{path.name}: {TOO_DEEP}"]) from error
    except ValueError as error:  # of tomllib, with line and column; of an integer of thousands of digits; too deep
        raise SpecError([f"{path.name}: {error}"]) from error


TOO_DEEP = f"tables and arrays are nested more than {MAX_DEPTH} deep"


def shallow(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree itself. Raises ValueError where it is nested so deep that walking through it is an attack."""
    level: list[Any] = [tree]
    for _ in range(MAX_DEPTH):
        children = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
        level = [child for child in children if isinstance(child, (dict, list))]
        if not level:
            return tree
    raise ValueError(TOO_DEEP)


def with_tuples(value: Any) -> Any:
    """TOML's arrays as tuples: specs are frozen, and strict about it."""
    if isinstance(value, dict):
        return {k: with_tuples(v) for k, v in value.items()}
    return tuple(with_tuples(v) for v in value) if isinstance(value, list) else value


def apply(raw: dict[str, Any], override: str) -> list[str]:
    """Set one key from ``table.key=value``; what is wrong with it, if anything."""
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        return [f'--set "{override}": write table.key=value, e.g. train.epochs=3']
    try:
        parsed = tomllib.loads(f"value = {text}")
        value = with_tuples(shallow(parsed))["value"] if list(parsed) == ["value"] else text.strip()
    except tomllib.TOMLDecodeError:
        value = text.strip()
    except (ValueError, RecursionError) as error:
        return [f'--set "{keys[-1]}": {TOO_DEEP if isinstance(error, RecursionError) else error}']
    if len(keys) > MAX_DEPTH:
        return [f'--set "{keys[0]}.{keys[1]}…": {TOO_DEEP}']
    if len(keys) == 1:
        return [f'--set "{override}": name the table too, as in train.epochs=3']
    table = raw
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            return [f'--set "{override}": {key} is not a table']
    table[keys[-1]] = value
    return []


def merged(raw: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A parsed file with some keys replaced; of tables, key by key."""
    result = dict(raw)
    for key, value in changes.items():
        before = result.get(key)
        result[key] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """(dotted path, value) of every leaf of nested tables."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def plain(value: Any, key: str) -> Any:
    """A value as a suite's file can hold it: sequences as lists, numpy's numbers as Python's. Raises SpecError."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {name: plain(each, f"{key}.{name}") for name, each in value.items()}
    if isinstance(value, Sequence):
        return [plain(each, key) for each in value]
    if callable(to_list := getattr(value, "tolist", None)):  # numpy's and torch's
        return plain(to_list(), key)
    raise SpecError([f"{key}: a suite's file cannot hold {value!r}"])


def inline(value: Any) -> str:
    """A plain value in TOML, on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {inline(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    return json.dumps(value, ensure_ascii=False)
