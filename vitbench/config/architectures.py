"""Architectures: a ViT or a baseline beside it, and the facts about each that need no model."""

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass

from vitbench.wording import nearest

OF_TIMM = "timm:"  # Prefix of the name of a model, or of weights, of timm's


@dataclass(frozen=True)
class ArchitectureFacts:
    """Facts about an architecture that need no model."""

    source: str  # paper or repository that defines it
    # it is put together from components, in sizes of the spec; any other has its own and no other
    of_components: bool = False
    # of one that has not: operations of the forward pass of an RGB image for each of its pixels, a multiply-add
    # counting two; the classifier counts as nothing. None: they are counted in the built model
    flops_per_pixel: int | None = 0
    vmap: bool = True  # torch.vmap can run several of them as one
    package: str | None = None  # that it needs


ARCHITECTURES: Mapping[str, ArchitectureFacts] = {
    "vit": ArchitectureFacts("Dosovitskiy et al. 2020, arXiv 2010.11929", of_components=True),
    # Convolutions of 3 x 3: 3 -> 64, and at a quarter and a sixteenth of the pixels 64 -> 128 -> 256.
    "cnn": ArchitectureFacts(
        "three convolutions in the manner of VGG, Simonyan and Zisserman 2014, arXiv 1409.1556",
        flops_per_pixel=2 * 9 * (3 * 64 + 64 * 128 // 4 + 128 * 256 // 16), vmap=False,
    ),
    # The stem; then four stages of four convolutions of 3 x 3, each stage on a quarter of the pixels of the one before
    # and twice as wide: all but the first begin with a narrower input, and have a 1 x 1 convolution beside it.
    "resnet18": ArchitectureFacts(
        "He et al. 2015, arXiv 1512.03385; the stem for small images is that of its section 4.2",
        flops_per_pixel=2 * (9 * 3 * 64 + 9 * 4 * 64 * 64 + 3 * (9 * 7 * 64 * 64 + 64 * 64) // 2),
        vmap=False,
    ),
    # A stem of 7 x 7 on a quarter of the pixels, and the same stages on a sixteenth: sides are multiples of 32.
    "resnet18_imagenet": ArchitectureFacts(
        "He et al. 2015, arXiv 1512.03385, table 1; torchvision.models.resnet18",
        flops_per_pixel=2 * (49 * 3 * 64 // 4 + (9 * 4 * 64 * 64 + 3 * (9 * 7 * 64 * 64 + 64 * 64) // 2) // 16),
        vmap=False,
    ),
}  # fmt: skip
"""Name → facts."""


def architecture_facts(name: str) -> ArchitectureFacts:
    """The facts of an architecture by its name, which may be that of a whole model of timm's."""
    if name.startswith(OF_TIMM):
        source = f"{name[len(OF_TIMM) :]} of huggingface/pytorch-image-models"
        return ArchitectureFacts(source, flops_per_pixel=None, vmap=False, package="timm")
    return ARCHITECTURES[name]


def of_timm(given: str) -> bool:
    """Whether this is a name of timm's behind its prefix, which leads nowhere else: to no other hub, and to no file."""
    return re.fullmatch(rf"{OF_TIMM}[\w.-]+", given) is not None


def missing_in_timm(name: str) -> str | None:
    """Why timm, if it is installed, cannot build the model of an architecture; None for one that is not timm's."""
    if not name.startswith(OF_TIMM) or importlib.util.find_spec("timm") is None:
        return None
    import timm  # with torch, for which suites without such a model do not wait

    given = name[len(OF_TIMM) :]
    model, _, tag = given.partition(".")
    if not timm.is_model(model):
        return f'timm has no model "{model}"{nearest(model, timm.list_models())}'
    known = [each.partition(".")[2] for each in timm.list_pretrained(f"{model}.*")]
    return f'timm has no "{model}" with the tag "{tag}"{nearest(tag, known)}' if tag and tag not in known else None
