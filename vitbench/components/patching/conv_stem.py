"""A stem of convolutions in the place of patches."""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench.components.contracts import Patching
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    among={"patch_size": (2, 4, 8, 16)},
    multiple_of={"dim": 8},
    flops={"pcdr": 9, "pddl": 9, "pdd": -7},
    vmap=False,  # batch norms keep statistics
    source="Xiao et al. 2021, Early Convolutions Help Transformers See Better, arXiv 2106.14881, §4",
)
class ConvStem(Patching):
    """3 × 3 convolutions with stride 2, batch norm and ReLU, then a 1 × 1 convolution.

    As many as halve an image down to its patches; the width doubles from one to the next, up to the model's. The paper
    leaves out one block for it.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        widths = (spec.channels, *doubling(self.patch_size[0], spec.dim))
        self.layers = nn.Sequential(
            *itertools.chain.from_iterable(
                (nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())
                for before, after in itertools.pairwise(widths)
            )
        )
        self.weight = nn.Parameter(torch.empty(spec.dim, spec.dim, 1, 1))

    def inner_filters(self) -> list[Tensor]:
        """All but those of the first convolution."""
        return [self.weight, *after_the_first(self.layers)]

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) → (B, height · width / P², D)."""
        return F.conv2d(self.layers(images), self.weight, self.bias).flatten(2).transpose(1, 2)


def after_the_first(layers: nn.Module) -> list[Tensor]:
    """Filters of all convolutions but the first."""
    return [module.weight for module in layers.modules() if isinstance(module, nn.Conv2d)][1:]


def doubling(patch_size: int, dim: int) -> list[int]:
    """The width after each convolution of stride 2, as many as halve an image down to its patches: ``dim`` the last."""
    halvings = patch_size.bit_length() - 1
    return [dim >> (halvings - 1 - number) for number in range(halvings)]
