"""Messages about mistakes in a suite: file, key, value, what is allowed and the nearest name."""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vitbench.errors import UserError
from vitbench.wording import nearest, plural

PYTHON_TO_TOML = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "dict": "table",
                  "list": "array", "tuple": "array", "NoneType": "nothing"}  # fmt: skip
WANTED = {"int_type": "an integer", "float_type": "a number", "string_type": "a string", "bool_type": "true or false",
          "tuple_type": "an array", "model_type": "a table", "dict_type": "a table",
          "model_attributes_type": "a table"}  # fmt: skip


LIMITS = {
    "greater_than": "> {gt}",
    "greater_than_equal": ">= {ge}",
    "less_than": "< {lt}",
    "less_than_equal": "<= {le}",
    "finite_number": "finite",
    "too_short": "an array of {min_length} or more values",
    "string_pattern_mismatch": "text without control characters",
    "string_too_short": "{min_length} or more characters",
    "string_too_long": "at most {max_length} characters",
}
SHOWN = 100  # Messages of one file that a user is shown; the others are counted


class SpecError(UserError, ValueError):
    """Everything that is wrong with a suite, one message each."""

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = list(dict.fromkeys(messages))
        more = [f"… and {len(self.messages) - SHOWN:,} more"] if len(self.messages) > SHOWN else []
        super().__init__("\n".join([*self.messages[:SHOWN], *more]))


class TooManyTrials(SpecError):
    """A grid that is too large to be meant by accident.

    Attributes:
        cells: combinations of the axes, and variants.
        runs: trainings of each of them.
        tables: the suite's own tables by name, read: what a cell is without its axes.
    """

    def __init__(self, file: str, cells: int, runs: int, limit: int, tables: Mapping[str, Any]) -> None:
        self.file, self.cells, self.runs, self.tables = file, cells, runs, tables
        super().__init__(
            [
                f"{file}: {plural(cells, 'cell')} × {plural(runs, 'seed')} exceed {limit:,} trials; "
                f"if that is meant, allow it with --max-trials {cells * runs} or --yes"
            ]
        )


def quote(value: object) -> str:
    """A value as TOML would write it, with its type; quotes say of a string what it is."""
    if isinstance(value, bool):
        return f"boolean {str(value).lower()}"
    name = PYTHON_TO_TOML.get(type(value).__name__, type(value).__name__)
    try:
        name, text = ("", f'"{value}"') if isinstance(value, str) else (f"{name} ", str(value))
    except ValueError:  # Python writes no integer of more than 4300 digits
        text = "of more digits than can be shown"
    return f"{name}{text if len(text) <= 80 else text[:77] + '...'}"


def explain(error: ValidationError, model: type[BaseModel]) -> list[tuple[str, str]]:
    """(dotted key, message) for each wrong key of a table; several complaints about one key (a union) become one."""
    by_path: dict[tuple[str, ...], list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        path = _path(detail["loc"], model, unknown=detail["type"] == "extra_forbidden")
        by_path.setdefault(path, []).append(detail)
    return [(".".join(path), _sentence(details, model, path)) for path, details in by_path.items()]


def _path(loc: tuple[int | str, ...], model: type[BaseModel], *, unknown: bool) -> tuple[str, ...]:
    """The key that is wrong, maybe an ``unknown`` one. The branch of a union, or the index in it, is cut off."""
    path: list[str] = []
    fields: Mapping[str, Any] | None = model.model_fields
    for part in loc:
        if fields is None or (part not in fields and not unknown):
            break
        path.append(str(part))
        table = _table(fields[str(part)].annotation) if str(part) in fields else None
        fields = table.model_fields if table else None
    return tuple(path)


def _table(annotation: object) -> type[BaseModel] | None:
    """The spec of a field that is a table, also where it may be absent: a union with None."""
    choices = (annotation, *get_args(annotation))
    return next((c for c in choices if isinstance(c, type) and issubclass(c, BaseModel)), None)


def _fields_of(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    for part in path[:-1]:
        table = _table(model.model_fields[part].annotation)
        assert table is not None
        model = table
    return list(model.model_fields)


def _sentence(details: list[ErrorDetails], model: type[BaseModel], path: tuple[str, ...]) -> str:
    # Of a union, the member that takes such a value and no number so large or small says what is wrong.
    details = [each for each in details if each["type"] in LIMITS] or details
    detail = details[0]
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        change = '; changes are under "set", such as set.pooling = "mean"' if "set" in model.model_fields else ""
        return f"unknown key{nearest(path[-1], _fields_of(model, path))}{change}"
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        known = [k.strip("'") for k in str(context["expected"]).replace(" or ", ", ").split(", ")]
        hint = nearest(given, known) if isinstance(given, str) else ""
        return f"{quote(given)} is not allowed{hint}; known: {', '.join(known)}"
    wanted = list(dict.fromkeys(filter(None, (_wanted(d) for d in details))))
    return f"must be {' or '.join(wanted)}, got {quote(given)}" if wanted else f"{detail['msg']}, got {quote(given)}"


def _wanted(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in WANTED:
        return WANTED[kind]
    if kind in LIMITS:
        return LIMITS[kind].format(**context)
    if kind == "literal_error":
        return str(context["expected"]).replace("'", '"')
    return ""
