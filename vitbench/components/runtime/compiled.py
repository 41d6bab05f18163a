"""PyTorch's compiler."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Runtime
from vitbench.registry import component


@component(exact=True, trains_on=(), source="Ansel et al. 2024, PyTorch 2, doi 10.1145/3620665.3640366")
class Compiled(Runtime):
    """torch.compile, the whole model as one graph."""

    def prepare(self, module: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
        """A compiled module; ``fullgraph`` makes an error of what the compiler would else leave to PyTorch."""
        compiled: Callable[[Tensor], Tensor] = torch.compile(module, dynamic=False, fullgraph=True)
        return compiled
