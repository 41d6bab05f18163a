"""CUDA graphs: whether torch captured them where a recipe asks for them."""

from __future__ import annotations


def uncaptured() -> int:
    """How many compiled parts torch has run in this process without the CUDA graph that was asked for.

    It does so in silence where a part waits for the host, changes its inputs or is on another device; which, and why,
    ``TORCH_LOGS=perf_hints`` says.
    """
    # A second's import, for those who ask. Torch's count has no public name; its log says the same in words.
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["cudagraph_skips"])


def notice(parts: int) -> str:
    """The same as a record says it."""
    what = "1 compiled part" if parts == 1 else f"{parts} compiled parts"
    return f"CUDA graphs were asked for, and torch ran {what} of the training without (TORCH_LOGS=perf_hints says why)"
