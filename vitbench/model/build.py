"""Build: the Vision Transformer and the baselines beside it, each built from a spec."""

import importlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vitbench import registry
from vitbench.config.architectures import OF_TIMM
from vitbench.config.base import pair
from vitbench.config.model import ModelSpec
from vitbench.model.initial import initialise
from vitbench.model.vit import VisionTransformer
from vitbench.streams import derive


class Baseline(nn.Module):
    """Images (B, C, height, width) → logits (B, classes), by a network as it is and one linear layer on what it gives.

    Attributes:
        spec: what it is.
        body: images → features (B, F).
        head: features → logits.
        classifier: name of the linear layer where its weights come from; None: of several, which are not taken.
    """

    initial_std: Literal["he"] | None = "he"  # None: the weights are those with which it is made
    classifier: str | None = "fc"

    def __init__(self, spec: ModelSpec, body: nn.Module, features: int) -> None:
        super().__init__()
        self.spec, self.body = spec, body
        self.head = nn.Linear(features, spec.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(self.features(images))
        return logits

    def features(self, images: Tensor) -> Tensor:
        """Images (B, C, height, width) → what the head sees, (B, F)."""
        features: Tensor = self.body(images)
        return features


def small_cnn(spec: ModelSpec) -> Baseline:
    """Three convolutions of 3 x 3, each with batch norm, ReLU and (but for the last) a maximum over 2 x 2; their mean.

    Source: the manner of VGG, Simonyan and Zisserman 2014, arXiv 1409.1556, with batch norm.
    """
    widths, layers = (spec.channels, 64, 128, 256), list[nn.Module]()
    for before, after in itertools.pairwise(widths):
        layers += [nn.MaxPool2d(2)] if layers else []
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return Baseline(spec, nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), widths[-1])


def resnet18(spec: ModelSpec) -> Baseline:
    """torchvision's ResNet-18 with a stem for small images: one convolution of 3 x 3 and stride 1, and no pooling.

    Source: He et al. 2015, arXiv 1512.03385, §4.2 for the stem.
    """
    model = resnet18_imagenet(spec)
    model.body.conv1 = nn.Conv2d(spec.channels, 64, 3, padding=1, bias=False)
    model.body.maxpool = nn.Identity()
    return model


def resnet18_imagenet(spec: ModelSpec) -> Baseline:
    """torchvision's ResNet-18 as it is, for images of some 224 pixels: it can start from the published weights."""
    from torchvision.models import resnet18 as build  # a second, which models without it do not wait for

    body = build(weights=None)
    features = body.fc.in_features
    body.fc = nn.Identity()
    return Baseline(spec, body, features)


class OfTimm(Baseline):
    """A whole model of timm's, with the initial weights that timm draws, and without decay where timm has none.

    Source: https://github.com/huggingface/pytorch-image-models; the paper is named in timm's file of the model.
    """

    initial_std = None

    def __init__(self, spec: ModelSpec) -> None:
        timm: Any = importlib.import_module("timm")  # a second, which models without it do not wait for
        name = spec.architecture.removeprefix(OF_TIMM)
        known = timm.get_pretrained_cfg(name)
        size = {"img_size": pair(spec.image_size)} if known.fixed_input_size else {}
        body = timm.create_model(name, pretrained=False, num_classes=0, in_chans=spec.channels, **size)
        super().__init__(spec, body, getattr(body, "head_hidden_size", body.num_features))
        self.classifier = known.classifier if isinstance(known.classifier, str) else None
        free = body.no_weight_decay() if hasattr(body, "no_weight_decay") else ()
        self.token_tables = tuple(f"body.{each}" for each in free)


Model = VisionTransformer | Baseline

ARCHITECTURES: Mapping[str, Callable[[ModelSpec], Model]] = {
    "vit": VisionTransformer, "cnn": small_cnn, "resnet18": resnet18, "resnet18_imagenet": resnet18_imagenet,
}  # fmt: skip
"""Name in a spec → what builds it, its weights not drawn yet; any other name is one of timm's."""


def network(spec: ModelSpec) -> Model:
    """The network of a spec, its weights not drawn yet."""
    return ARCHITECTURES.get(spec.architecture, OfTimm)(spec)


def build_model(spec: ModelSpec, seed: int) -> Model:
    """A model with the initial weights of a seed, on the CPU in float32.

    Raises:
        ValueError: where fields contradict one another or components cannot be combined; the message says which.
    """
    wrong = [f"{field}: {message}" for field, message in spec.problems()] or spec.conflicts()
    if wrong:
        raise ValueError("; ".join(wrong))
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(derive(seed, "init"))
        model = network(spec)
    if model.initial_std is not None:
        initialise(model, model.initial_std, seed)
    return model


def check_plugins(specs: Iterable[ModelSpec]) -> None:
    """Build the first of some models that has each component of a plug-in, without memory for its parameters.

    Raises:
        PluginError: where one cannot be built, with file and line.
    """
    built = set[tuple[str, str]]()
    for spec in specs:
        own = {slot: name for slot, name in spec.components.items() if registry.plugins({slot: name})}
        if own.items() <= built:
            continue
        try:
            with torch.device("meta"):
                network(spec)
        except Exception as error:
            raise registry.unbuildable(own, error) from error
        built |= own.items()
