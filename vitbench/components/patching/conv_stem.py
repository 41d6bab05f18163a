"""A stem of convolutions in the place of patches."""

import itertools

from torch import nn

from vitbench.components.patching._stem import Stem, doubling
from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    among={"patch_size": (2, 4, 8, 16)},
    multiple_of={"dim": 8},
    flops={"pcdr": 9, "pddl": 9, "pdd": -7},
    vmap=False,  # batch norms keep statistics
    source="Xiao et al. 2021, Early Convolutions Help Transformers See Better, arXiv 2106.14881, §4",
)
class ConvStem(Stem):
    """3 × 3 convolutions with stride 2, batch norm and ReLU, then a 1 × 1 convolution.

    As many as halve an image down to its patches; the width doubles from one to the next, up to the model's. The paper
    leaves out one block for it.
    """

    def __init__(self, spec: ModelSpec) -> None:
        widths = (spec.channels, *doubling(pair(spec.patch_size)[0], spec.dim))
        layers = (
            (nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())
            for before, after in itertools.pairwise(widths)
        )
        super().__init__(spec, nn.Sequential(*itertools.chain.from_iterable(layers)))
