"""Token pruning."""

from vitbench.components.reduction.merge import Merge
from vitbench.registry import component


@component(
    every_patch=True,
    removes="by",
    options={"by": (8, 1, 4096)},
    flops={"aed": 2},
    source="Bolya et al. 2023, Token Merging, arXiv 2210.09461: one of two tokens kept, with which its ablation of the "
    "join compares; no learned or attention-based score",
)
class Prune(Merge):
    """After each block but the last, one patch goes of each of the ``by`` most similar pairs, which are merge's."""

    joins = False
