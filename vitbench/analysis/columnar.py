"""Columnar: large tables as one file of numpy arrays, read a hundred times as fast as the records they come from.

Of two sorts of columns alone: numbers (float64, NaN where there is none), and whatever JSON can say, as indices into
the distinct values. Nothing in such a file is code, and nothing in it is run.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from vitbench.store.files import opened, write_atomically

MADE_BY = "made_by"
MAX_BYTES = 1 << 32  # Largest file of tables


def save(path: Path, tables: Mapping[str, pd.DataFrame], made_by: str) -> None:
    """Write some tables, in place of what is there. Columns that are not float64 hold what JSON can say.

    Args:
        path: of the file.
        tables: name → rows.
        made_by: what :func:`load` must ask for to get them.

    Raises:
        OSError: where it cannot be written.
        TypeError: of a value that JSON cannot say.
    """
    arrays = {MADE_BY: np.array(made_by)}
    for name, table in tables.items():
        arrays[name] = np.array([str(column) for column in table.columns], dtype=np.str_)
        for number, column in enumerate(table.columns):
            if table[column].dtype == np.float64:
                arrays[f"{name}/{number}"] = table[column].to_numpy()
            else:
                codes, distinct = factorized(table[column].tolist())
                arrays[f"{name}/{number}/codes"] = codes
                arrays[f"{name}/{number}/json"] = np.frombuffer(json.dumps(distinct).encode(), dtype=np.uint8)
    packed = io.BytesIO()
    np.savez(packed, **arrays)  # type: ignore[arg-type]  # not allow_pickle=False: a table more to numpy before 2.2
    write_atomically(path, packed.getvalue())


def load(path: Path, made_by: str) -> dict[str, pd.DataFrame] | None:
    """Name → rows; None where there is no such file, it was made by other code, or is damaged."""
    try:
        with opened(path, MAX_BYTES) as stream, np.load(stream, allow_pickle=False) as arrays:
            if str(arrays[MADE_BY]) != made_by:
                return None
            names = [name for name in arrays.files if name != MADE_BY and "/" not in name]
            return {
                name: pd.DataFrame(
                    {str(column): _column(arrays, f"{name}/{i}") for i, column in enumerate(arrays[name])}
                )
                for name in names
            }
    except (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile):
        return None


def compact(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a column as it is, or as one repeated value where all are alike, which takes the memory of one."""
    if not len(values):
        return values
    first = values[0]
    if values.dtype == np.float64:
        alike = bool(np.isnan(values).all() if np.isnan(first) else (values == first).all())
    else:
        alike = all(value is first for value in values)
    return np.broadcast_to(values[:1].copy(), values.shape) if alike else values


def factorized(values: Sequence[Any]) -> tuple[npt.NDArray[np.int32], list[Any]]:
    """(index into the distinct values of each, the distinct values); 1, 1.0 and True are three."""
    known: dict[tuple[type, Any], int] = {}
    codes = np.fromiter((known.setdefault((type(v), v), len(known)) for v in values), dtype=np.int32, count=len(values))
    return codes, [value for _, value in known]


def _column(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> "pd.Series[Any]":
    if f"{name}/codes" not in arrays:
        return pd.Series(arrays[name])
    distinct = json.loads(arrays[f"{name}/json"].tobytes())
    values = np.empty(len(distinct), dtype=object)
    values[:] = distinct
    return pd.Series(values[arrays[f"{name}/codes"]], dtype=object)  # as what it is, not as pandas would have it
