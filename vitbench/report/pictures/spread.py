"""Spread: how rows of values are to be read, by what is drawn of them: points, or of many the spread."""

from __future__ import annotations

from collections.abc import Iterable

from vitbench.report.pictures.marks import MOST_POINTS, Values, is_many


def reading(rows: Iterable[Values], point: str, of: str, rest: str = "", most: int = MOST_POINTS) -> str:
    """How rows of values are to be read.

    Args:
        rows: the values of each row.
        point: what a point is, said where there are points.
        of: of what the spread is, said where no row has points: "of the seeds of a cell".
        rest: of the sentence.
        most: values of a row that are drawn as points.
    """
    kinds = {is_many(values, most) for values in rows if len(values)}
    ends, bar = "a line from the lowest to the highest", "a thick bar from quartile to quartile"
    if True not in kinds:
        said, pause = point, ","
    elif False not in kinds:
        said, pause = f"{ends} {of}, {bar}", ","
    else:
        said, pause = f"{point}; of more than {most} in a row {ends}, {bar}", ";"
    return f"{said}{pause} {rest}" if rest else said
