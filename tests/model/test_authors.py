"""Presets compute what their authors' own code computes, with the same weights.

    VITBENCH_AUTHORS=FOLDER python -m pytest tests/model/test_authors.py

FOLDER holds clones of SHI-Labs/Compact-Transformers, omihub777/ViT-CIFAR and tintn/vision-transformer-from-scratch.
It may hold cct_7_3x1_32_cifar10_300epochs.pth, the one file of weights that is published of these presets; without it,
and for the others, weights are random, of a size that shows each of them.
"""

import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.model.shaken import shaken
from vitbench.config.presets import preset
from vitbench.model.build import build_model

FOLDER = os.environ.get("VITBENCH_AUTHORS", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="VITBENCH_AUTHORS names no folder with the authors' code")

COMPACT = {
    r"tokenizer\.conv_layers\.0\.0\.": "patching.", r"classifier\.class_emb": "pooling.class_token",
    r"classifier\.positional_emb": "positions.table", r"classifier\.attention_pool\.": "pooling.score.",
    r"classifier\.norm\.": "encoder.final_norm.", r"classifier\.fc\.": "head.",
    r"classifier\.blocks\.(\d+)\.": r"encoder.blocks.\1.", r"\.pre_norm\.": ".attention_norm.",
    r"\.self_attn\.": ".attention.", r"\.norm1\.": ".mlp_norm.", r"\.linear1\.": ".mlp.up.",
    r"\.linear2\.": ".mlp.down.",
}  # fmt: skip
"""What of a name in SHI-Labs' code is called what here."""

TWO_CONVOLUTIONS = {
    r"tokenizer\.conv_layers\.0\.0\.weight": "patching.first", r"tokenizer\.conv_layers\.1\.0\.": "patching.",
    **COMPACT,
}  # fmt: skip

OF_CIFAR = {
    r"^emb\.": "patching.", r"^cls_token": "pooling.class_token", r"^pos_emb": "positions.table",
    r"^fc\.0\.": "encoder.final_norm.", r"^fc\.1\.": "head.", r"^enc\.(\d+)\.": r"encoder.blocks.\1.",
    r"\.la1\.": ".attention_norm.", r"\.la2\.": ".mlp_norm.", r"\.mlp\.0\.": ".mlp.up.", r"\.mlp\.3\.": ".mlp.down.",
    r"\.msa\.o\.": ".attention.proj.", r"\.msa\.([qkv])\.": r".attention.\1.",
}  # fmt: skip


FROM_SCRATCH = {
    r"^embedding\.patch_embeddings\.projection\.": "patching.", r"^embedding\.cls_token": "pooling.class_token",
    r"^embedding\.position_embeddings": "positions.table", r"^classifier\.": "head.",
    r"\.layernorm_1\.": ".attention_norm.", r"\.layernorm_2\.": ".mlp_norm.", r"\.qkv_projection\.": ".qkv.",
    r"\.output_projection\.": ".proj.", r"\.dense_1\.": ".up.", r"\.dense_2\.": ".down.",
}  # fmt: skip


def renamed(tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    def ours(name: str) -> str:
        return functools.reduce(lambda so_far, pair: re.sub(*pair, so_far), names.items(), name)

    return {ours(name): tensor for name, tensor in tensors.items()}


def of_three_layers(tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """A patch is height, width and channels there; q, k and v are three layers."""
    state = renamed(tensors, names)
    state["patching.weight"] = state["patching.weight"].unflatten(1, (4, 4, 3)).permute(0, 3, 1, 2)
    for number in range(7):
        for kind in ("weight", "bias"):
            where = f"encoder.blocks.{number}.attention."
            state[f"{where}qkv.{kind}"] = torch.cat([state.pop(f"{where}{part}.{kind}") for part in "qkv"])
    return state


@dataclass(frozen=True)
class Authors:
    """A model of its authors, how its tensors become ours, and the file of weights that may lie in the folder."""

    repository: str
    module: str
    maker: str
    options: Mapping[str, Any]
    names: Mapping[str, str]
    tensors: Callable[[Mapping[str, Tensor], Mapping[str, str]], dict[str, Tensor]] = renamed
    weights: str = "none.pth"


SMALL_IMAGES = {"arch": "", "pretrained": False, "progress": False, "img_size": 32, "num_classes": 10,
                "positional_embedding": "learnable"}  # fmt: skip
OF_TINTN = {"patch_size": 4, "hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
            "intermediate_size": 192, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
            "initializer_range": 0.02, "image_size": 32, "num_classes": 10, "num_channels": 3, "qkv_bias": True,
            "use_faster_attention": True}  # fmt: skip

AUTHORS = {
    "vit-lite-7/4": Authors("Compact-Transformers", "src.vit", "vit_7", {**SMALL_IMAGES, "kernel_size": 4}, COMPACT),
    "cct-7/3x1": Authors("Compact-Transformers", "src.cct", "cct_7", {**SMALL_IMAGES, "n_conv_layers": 1}, COMPACT,
                         weights="cct_7_3x1_32_cifar10_300epochs.pth"),
    "cct-7/3x2": Authors("Compact-Transformers", "src.cct", "cct_7", {**SMALL_IMAGES, "n_conv_layers": 2},
                         TWO_CONVOLUTIONS),
    "vit-cifar": Authors("ViT-CIFAR", "vit", "ViT", {"hidden": 384, "mlp_hidden": 384, "head": 12}, OF_CIFAR,
                         of_three_layers),
    "cifar-48": Authors("vision-transformer-from-scratch", "vit", "ViTForClassfication", {"config": OF_TINTN},
                        FROM_SCRATCH),
}  # fmt: skip
"""Preset → its authors' model."""


def theirs(authors: Authors, monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    """Their model. What prints summaries is not needed, and what enters models into timm not wanted."""
    folder = Path(FOLDER, authors.repository)
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    for name in [n for n in sys.modules if n.partition(".")[0] in ("src", "vit", "layers")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchsummary", ModuleType("torchsummary"))
    monkeypatch.setitem(sys.modules, "timm.models.registry", None)
    monkeypatch.syspath_prepend(str(folder))
    torch.manual_seed(0)
    made = getattr(importlib.import_module(authors.module), authors.maker)(**authors.options)
    model = shaken(made, 0.04)
    if (file := Path(FOLDER, authors.weights)).exists():
        model.load_state_dict(torch.load(file, weights_only=True))
    return model


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("name", AUTHORS)
def test_logits_and_gradients_are_the_authors(
    name: str, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients as a fraction of their norm altogether: in float32 some small ones are sums that cancel."""
    authors = AUTHORS[name]
    other, ours = theirs(authors, monkeypatch).to(dtype), build_model(preset(name), 0).eval().to(dtype)
    shapes = {key: tensor.shape for key, tensor in ours.state_dict().items()}
    tensors = authors.tensors(other.state_dict(), authors.names)
    ours.load_state_dict({key: tensor.reshape(shapes[key]) for key, tensor in tensors.items()})
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=dtype)
    answer, actual = other(images), ours(images)
    wanted = answer[0] if isinstance(answer, tuple) else answer
    assert wanted.std() > 0.05
    torch.testing.assert_close(actual, wanted, atol=tolerance, rtol=tolerance)
    for logits in (wanted, actual):
        logits.logsumexp(1).sum().backward()
    gradients = authors.tensors({key: p.grad for key, p in other.named_parameters()}, authors.names)
    assert gradients.keys() == shapes.keys()
    norm = float(nn.utils.get_total_norm(list(gradients.values())))
    for key, parameter in ours.named_parameters():
        true = gradients[key].reshape(shapes[key])
        assert parameter.grad is not None and true.any()
        assert (parameter.grad - true).norm() <= tolerance * norm, key
