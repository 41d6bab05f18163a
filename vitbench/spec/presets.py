"""Published models by name: the base from which a suite's ``[model]`` table may start (``preset = "…"``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vitbench.spec.model import ModelSpec


def _vit(dim: int, depth: int, heads: int, patch_size: int) -> ModelSpec:
    """A model of "An Image is Worth 16x16 Words", table 1 (arXiv 2010.11929), and DeiT's smaller ones (2012.12877)."""
    return ModelSpec(image_size=224, patch_size=patch_size, num_classes=1000, dim=dim, depth=depth, heads=heads)


PRESETS: Mapping[str, ModelSpec] = MappingProxyType(
    {
        # "Building a Vision Transformer from scratch in PyTorch", part 2
        "cifar-tiny": ModelSpec(image_size=32, patch_size=4, dim=128, depth=6, heads=4),
        # a lesson's 2.8M model
        "lesson-tiny": ModelSpec(image_size=64, patch_size=16, dim=192, depth=6, heads=3),
        # "ViT from scratch on FashionMNIST": its encoder has 18,906,112 parameters
        "notebook-encoder": ModelSpec(
            image_size=28, patch_size=4, dim=512, depth=6, heads=8, mlp_ratio=4.0, qkv_bias=False
        ),
        # tintn/vision-transformer-from-scratch, train.py
        "cifar-48": ModelSpec(image_size=32, patch_size=4, dim=48, depth=4, heads=4),
        "vit-ti/16": _vit(192, 12, 3, 16),
        "vit-s/16": _vit(384, 12, 6, 16),
        "vit-b/16": _vit(768, 12, 12, 16),
        "vit-l/16": _vit(1024, 24, 16, 16),
        "vit-h/14": _vit(1280, 32, 16, 14),
    }
)
