"""Sines and cosines of falling frequency: what the fixed positions are made of."""

import torch
from torch import Tensor


def angles(places: Tensor, count: int, base: float = 10_000.0, *, to_the_end: bool = False) -> Tensor:
    """places (…,) → (…, count): each place times base^(-i / count), i = 0 … count - 1.

    With ``to_the_end`` the exponents are i / (count - 1), so that the last frequency is 1 / base.
    Source: Vaswani et al. 2017, arXiv 1706.03762, §3.5.
    """
    frequencies = base ** -(torch.arange(count, dtype=torch.float64) / max(count - to_the_end, 1))
    return places.to(torch.float64)[..., None] * frequencies


def rows_and_columns(grid: tuple[int, int]) -> list[Tensor]:
    """Row and column (N,) of each patch, in the order of the tokens."""
    rows, columns = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")
    return [rows.flatten(), columns.flatten()]
