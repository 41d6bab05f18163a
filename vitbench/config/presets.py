"""Published models by name: the base from which a suite's ``[model]`` table may start (``preset = "…"``)."""

from collections.abc import Mapping
from typing import Any

from vitbench.config.architectures import of_timm
from vitbench.config.model import ModelSpec
from vitbench.errors import UserError
from vitbench.wording import nearest


class UnknownPreset(UserError, ValueError):
    """A name of no published model. The message names the nearest and all."""


def _vit(dim: int, depth: int, heads: int, patch_size: int) -> dict[str, Any]:
    """A model of "An Image is Worth 16x16 Words", table 1 (arXiv 2010.11929), and DeiT's smaller ones (2012.12877)."""
    sizes = {"image_size": 224, "patch_size": patch_size, "num_classes": 1000}
    return {**sizes, "dim": dim, "depth": depth, "heads": heads}


# Layer norm with PyTorch's default epsilon, of those who left it at that
TORCHS_NORM = {"norm_layer": "layernorm(eps=1e-05)"}
# "Escaping the Big Data Paradigm with Compact Transformers" (arXiv 2104.05704): 7 layers
COMPACT = {
    "image_size": 32, "dim": 256, "depth": 7, "heads": 4, "mlp_ratio": 2.0, "qkv_bias": False, "norm": "compact",
    **TORCHS_NORM, "attention_dropout": 0.1, "drop_path": 0.1,
}  # fmt: skip

# Where a model differs from its authors' beyond its initial weights, the difference is named. Logits and gradients
# with their code: tests/model/test_authors.py. Initial weights are truncated normal with init_std in all of them;
# their authors draw class tokens and positions with 1.0 (ViT-CIFAR, fashion-56, cifar-tiny) or 0.2 (Compact
# Transformers), and projections as PyTorch's or Keras' modules do. Layer norms of cifar-tiny, lesson-tiny and
# notebook-encoder have an epsilon of 1e-6, where PyTorch's default is 1e-5.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    # "Building a Vision Transformer from scratch in PyTorch", part 2
    "cifar-tiny": {"image_size": 32, "patch_size": 4, "dim": 128, "depth": 6, "heads": 4},
    # a lesson's 2.8M model
    "lesson-tiny": {"image_size": 64, "patch_size": 16, "dim": 192, "depth": 6, "heads": 3},
    # "ViT from scratch on FashionMNIST": its encoder has 18,906,112 parameters
    "notebook-encoder": {
        "image_size": 28, "patch_size": 4, "dim": 512, "depth": 6, "heads": 8, "mlp_ratio": 4.0, "qkv_bias": False,
    },
    # tintn/vision-transformer-from-scratch, train.py
    "cifar-48": {
        "image_size": 32, "patch_size": 4, "dim": 48, "depth": 4, "heads": 4, "mlp": "gelu_tanh", **TORCHS_NORM,
        "final_norm": False,
    },
    # FashionMNIST at 56 pixels in three channels, 87.2 % after 5 epochs
    "fashion-56": {
        "image_size": 56, "patch_size": 7, "dim": 256, "depth": 2, "heads": 8, "dropout": 0.1, "attention_dropout": 0.1,
        "qkv_bias": False, **TORCHS_NORM, "head": "normed",
    },
    # SHI-Labs/Compact-Transformers, src/vit.py and src/cct.py
    "vit-lite-7/4": {**COMPACT, "patch_size": 4},
    "cct-7/3x1": {**COMPACT, "patch_size": 2, "patching": "conv_tokenizer", "pooling": "sequence"},
    "cct-7/3x2": {**COMPACT, "patch_size": 4, "patching": "conv_tokenizer", "pooling": "sequence"},
    # omihub777/ViT-CIFAR
    "vit-cifar": {
        "image_size": 32, "patch_size": 4, "dim": 384, "depth": 7, "heads": 12, "mlp_ratio": 1.0,
        "attention": "unscaled(divisor=model)", **TORCHS_NORM, "mlp": "gelu_twice",
    },
    # wangf3014/ViT-5, models_vit5.py, vit5_small; there registers are turned, too, by places of their own, and the
    # class token has no position
    "vit5-s/16": {
        **_vit(384, 12, 6, 16), "norm_layer": "rmsnorm", "residual": "layerscale", "qk_norm": "rmsnorm",
        "qkv_bias": False, "positions": "learned_rope_2d(base=10000)", "registers": 4,
    },
    # baselines
    "cnn": {"architecture": "cnn"},
    "resnet18": {"architecture": "resnet18"},
    "resnet18-imagenet": {"architecture": "resnet18_imagenet", "image_size": 224, "num_classes": 1000},
    "vit-ti/16": _vit(192, 12, 3, 16),
    "vit-s/16": _vit(384, 12, 6, 16),
    "vit-b/16": _vit(768, 12, 12, 16),
    "vit-l/16": _vit(1024, 24, 16, 16),
    "vit-h/14": _vit(1280, 32, 16, 14),
}  # fmt: skip
"""Name → fields of the model's specification."""


def preset(name: str) -> ModelSpec:
    """A published model by its name, or one of timm's by ``timm:NAME``.

    Raises:
        UnknownPreset: with the nearest name.
    """
    if of_timm(name):
        return ModelSpec(architecture=name)
    if name not in PRESETS:
        raise UnknownPreset(f'"{name}" is no preset{nearest(name, PRESETS)}; known: {", ".join(PRESETS)}')
    return ModelSpec.model_validate(PRESETS[name])
