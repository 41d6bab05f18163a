"""Residual blocks in the place of patches: the hybrid of a ResNet and a Vision Transformer."""

import itertools

from torch import nn
from torchvision.models.resnet import BasicBlock

from vitbench.components.patching._stem import Stem, doubling
from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.registry import component


@component(
    among={"patch_size": (2, 4, 8, 16)},
    multiple_of={"dim": 16},
    options={"blocks": (2, 1, 8)},
    flops={"pcdr": 18, "pdd(blocks)": 36, "pdd(blocks)l": 36, "pddl": -8, "pdd": 2},
    vmap=False,  # batch norms keep statistics
    source="Dosovitskiy et al. 2020, arXiv 2010.11929, §3.1, Hybrid Architecture; stages of ResNet-18: He et al. "
    "2016, arXiv 1512.03385, fig. 5 left and §4.2 (its form for small images)",
)
class ResNetStem(Stem):
    """A 3 × 3 convolution, stages of ``blocks`` residual blocks, then a 1 × 1 convolution on the last one's output.

    The first stage keeps the image's size. Each one after it halves it and has twice the width, up to the model's: with
    patches of 4 they are the first three stages of a ResNet-18. The paper takes those of a ResNet-50.
    """

    def __init__(self, spec: ModelSpec, *, blocks: int = 2) -> None:
        widths = doubling(2 * pair(spec.patch_size)[0], spec.dim)
        first = nn.Conv2d(spec.channels, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()
        stages = [[BasicBlock(widths[0], widths[0]) for _ in range(blocks)]]
        for before, after in itertools.pairwise(widths):
            beside = nn.Sequential(nn.Conv2d(before, after, 1, stride=2, bias=False), nn.BatchNorm2d(after))
            halving = BasicBlock(before, after, stride=2, downsample=beside)
            stages.append([halving, *(BasicBlock(after, after) for _ in range(blocks - 1))])
        super().__init__(spec, nn.Sequential(*first, *itertools.chain.from_iterable(stages)))
