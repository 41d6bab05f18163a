"""Row and column offsets between patches, from which biases of scores are made."""

from torch import Tensor

from vitbench.components.positions._waves import rows_and_columns


def offsets(grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Rows and columns (P, P) from the patch of each column of the result to that of its row: query less key."""
    rows, columns = rows_and_columns(grid)
    return rows[:, None] - rows, columns[:, None] - columns


def numbers(grid: tuple[int, int]) -> Tensor:
    """Number (P, P) of each pair's offset, of (2 height - 1) (2 width - 1), row by row from the least."""
    rows, columns = offsets(grid)
    numbered: Tensor = (rows + grid[0] - 1) * (2 * grid[1] - 1) + columns + grid[1] - 1
    return numbered
