"""Attention of packages that need a GPU: handed what the packages' documentation asks for, by stand-ins of theirs."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.components.cases import SMALL
from vitbench.config import model
from vitbench.model.encoder import chosen
from vitbench.model.initial import initialise

GIVEN: list[float] = []  # Dropout of each call


def attended(q: Tensor, k: Tensor, v: Tensor, dropout: float, scale: float) -> Tensor:
    """(B, N, H, K) each → the same, head by head."""
    GIVEN.append(dropout)
    scores = torch.einsum("bnhk,bmhk->bhnm", q, k) * scale
    return torch.einsum("bhnm,bmhk->bnhk", scores.softmax(-1), v)


def flash_attn() -> dict[str, ModuleType]:
    """https://github.com/Dao-AILab/flash-attention: q, k and v (B, N, H, K), or packed (B, N, 3, H, K)."""
    module: Any = ModuleType("flash_attn")
    module.flash_attn_func = lambda q, k, v, dropout_p=0.0, softmax_scale=None: attended(
        q, k, v, dropout_p, softmax_scale
    )
    module.flash_attn_qkvpacked_func = lambda qkv, dropout_p=0.0, softmax_scale=None: attended(
        *qkv.unbind(2), dropout_p, softmax_scale
    )
    return {"flash_attn": module}


def xformers() -> dict[str, ModuleType]:
    """https://facebookresearch.github.io/xformers: (B, N, H, K), dropout p."""
    module: Any = ModuleType("xformers.ops")
    module.memory_efficient_attention = lambda q, k, v, attn_bias=None, p=0.0, scale=None: attended(q, k, v, p, scale)
    return {"xformers": ModuleType("xformers"), "xformers.ops": module}


@pytest.mark.parametrize("name", ["flash_attn", "xformers"])
@pytest.mark.parametrize("changes", [{}, {"positions": "rope_2d"}, {"qk_norm": "rmsnorm", "gate": "headwise"}])
def test_a_package_is_handed_what_it_asks_for(
    name: str, changes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for each, module in {"flash_attn": flash_attn, "xformers": xformers}[name]().items():
        monkeypatch.setitem(sys.modules, each, module)
    spec = SMALL.model_copy(update={**changes, "attention": name, "attention_dropout": 0.25})
    attention = chosen("attention", spec)(spec).double().eval()
    plain = chosen("attention", reference := spec.model_copy(update={"attention": "batched"}))(reference).double()
    for module in (attention, plain.eval()):
        initialise(module, 0.5, seed=0)
    rotation = chosen("positions", spec)(spec).turning()
    tokens = torch.randn(2, spec.tokens, spec.dim, dtype=torch.float64)
    turned = None if rotation is None else rotation.double()
    torch.testing.assert_close(attention(tokens, turned), plain(tokens, turned), rtol=1e-10, atol=1e-10)
    attention.train()(tokens, turned)
    assert GIVEN[-2:] == [0.0, 0.25]


def test_it_says_why_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None)))
    spec = SMALL.model_copy(update={"attention": "flash_attn"})
    assert spec.unsupported("cpu", "bfloat16", training=False) == 'attention "flash_attn" runs on cuda, not on cpu'
    assert spec.unsupported("cuda", "float32", training=False) == (
        'attention "flash_attn" runs in float16, bfloat16, not in float32'
    )
    assert spec.missing_package() == 'attention "flash_attn" needs the package flash_attn, which is not installed'
