"""MLP with GELU as JAX has it."""

import functools

from torch.nn import functional as F

from vitbench.components.contracts import MLP
from vitbench.registry import component


@component(source="Hendrycks and Gimpel 2016, arXiv 1606.08415, §2; google-research/vision_transformer (jax.nn.gelu)")
class TanhGELU(MLP):
    """down(gelu(up(x))), with the approximation by tanh."""

    activate = staticmethod(functools.partial(F.gelu, approximate="tanh"))
