"""Nyström attention."""

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbench.components.contracts import SelfAttention
from vitbench.config.model import ModelSpec
from vitbench.registry import component

ITERATIONS = 6


@component(
    offers=("qk_norm", "gate", "head_dim"),
    options={"landmarks": (16, 1, 256)},
    flops={
        "ndi": 8, "ni(landmarks)": 8, "i(landmarks)(landmarks)": 4, "h(landmarks)(landmarks)(landmarks)": 48,
    },
    source="Xiong et al. 2021, Nyströmformer, arXiv 2102.03902, eq. 13 to 15; mlpen/Nystromformer, ImageNet/T2T-ViT, "
    "without the convolution beside it, which is off there",
)  # fmt: skip
class Nystrom(SelfAttention):
    """Softmax attention approximated through ``landmarks``, means of neighbouring queries and keys: linear in N.

    Where N is no multiple of ``landmarks`` the tokens of some neighbouring means overlap by one.
    """

    def __init__(self, spec: ModelSpec, *, landmarks: int = 16) -> None:
        super().__init__(spec)
        self.landmarks = landmarks

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K)."""
        q = q * self.scale
        some_q, some_k = (self._means(each) for each in (q, k))
        from_all = (q @ some_k.transpose(-2, -1)).softmax(dim=-1)
        among = (some_q @ some_k.transpose(-2, -1)).softmax(dim=-1)
        to_all = (some_q @ k.transpose(-2, -1)).softmax(dim=-1)
        return from_all @ (_inverse(among) @ (to_all @ v))

    def _means(self, x: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, landmarks, K)."""
        flat = x.transpose(-2, -1).flatten(1, 2)
        means: Tensor = F.adaptive_avg_pool1d(flat, self.landmarks).unflatten(1, (self.heads, -1))
        return means.transpose(-2, -1)


def _inverse(a: Tensor) -> Tensor:
    """The Moore-Penrose inverse (…, L, L) of matrices whose rows sum to 1, by iteration of third order."""
    z = a.transpose(-2, -1) / a.sum(dim=-2).amax(dim=-1)[..., None, None]
    one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for _ in range(ITERATIONS):
        az = a @ z
        z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
    return z
