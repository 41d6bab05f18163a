"""Learned and rotary positions at once."""

from vitbench.components.positions.learned import Learned
from vitbench.components.positions.rope_2d import Rope2D
from vitbench.registry import component


@component(
    needs={"attention": "rotary"},
    multiple_of={"head_width": 4},
    options={"base": (100.0, 1.0, 1e6), "coordinates": ("patches", "unit"), "rescale": (1.0, 1.0, 10.0)},
    vmap="rescale",
    source="Heo et al. 2024, arXiv 2403.13298, §3.3, RoPE + APE; Fang et al. 2023, EVA-02, arXiv 2303.11331",
)
class LearnedRope2D(Rope2D, Learned):
    """A learned vector is added to each token, and queries and keys are turned as by rope_2d."""
