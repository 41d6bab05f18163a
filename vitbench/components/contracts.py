"""Contracts: the base classes of the components of each slot, from which the model is put together.

Shapes, here and everywhere: B batch, C channels, N tokens, D model width, H heads, K head width (D / H unless
``head_dim`` is given), P patch size. ``tokens`` is (B, N, D), with the class token first where there is one.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbench import registry
from vitbench.config.base import pair
from vitbench.config.model import ModelSpec


class SpecModule(nn.Module):
    """Part of a model, made from the model's spec. Its parameters start by the rule of all, but for those it names."""

    token_tables: ClassVar[tuple[str, ...]] = ()
    """Parameters that are added to tokens or looked up by place: initialised as such, and free of weight decay."""

    constants: tuple[tuple[str, float], ...] = ()
    """Parameters, and the value that each starts with."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()


class Patching(SpecModule):
    """Images (B, C, height, width) → tokens (B, N, D), one for each patch, row by row.

    Exact ones hold ``weight`` (D, C, P, P), as a convolution with kernel = stride = patch does, and ``bias`` (D,); a
    form that multiplies flattened patches flattens the weight.
    """

    bias: nn.Parameter | None

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.patch_size = pair(spec.patch_size)
        self.weight = nn.Parameter(torch.empty(spec.dim, spec.channels, *self.patch_size))
        self.bias = nn.Parameter(torch.empty(spec.dim))

    def forward(self, images: Tensor) -> Tensor:
        """Embed the patches."""
        raise NotImplementedError

    def inner_filters(self) -> list[Tensor]:
        """Filters (out, in, height, width) of a stem's convolutions but the first, which is given pixels."""
        return []


class Sublayer(nn.Module):
    """Part of a block that is wrapped in norm and residual: attention or an MLP."""

    block: int = 0
    """Number of the block that it is a part of, from 0; a block sets it."""

    spreads: ClassVar[tuple[tuple[str, float], ...]] = ()
    """Parameters, and the standard deviation with which each starts whatever the model's is."""


class QKNorm(SpecModule):
    """Queries or keys (B, H, N, K) → the same, normalised; an attention has one for queries and one for keys.

    It comes after the projection, and before a rotation by position.
    """

    changes: ClassVar[bool] = True
    """Whether anything is done: if not, a kernel may read queries and keys where they were projected."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, H, N, K) → (B, H, N, K); H is 1 where heads come one by one, so no head has weights of its own."""
        return x


class Bias(SpecModule):
    """Numbers that are added to the scores of pairs of tokens before the softmax; each attention has one of its own."""

    def forward(self) -> Tensor | None:
        """(H, N, N), row = query, or None where nothing is added."""
        return None


class Gate(SpecModule):
    """Scales the heads' outputs before they are projected."""

    def forward(self, mixed: Tensor, tokens: Tensor) -> Tensor:
        """Heads side by side (B, N, HK), and the tokens that attention was given (B, N, D) → (B, N, HK)."""
        return mixed


class SelfAttention(Sublayer):
    """Tokens (B, N, D) → tokens (B, N, D).

    softmax(Q Kᵀ / √K) V for each head, heads concatenated and projected (Vaswani et al. 2017, arXiv 1706.03762, §3.2);
    queries and keys normalised, scores biased and heads gated as the spec has it, which are nothing by default.
    All exact components hold ``qkv.weight`` (3HK, D) (rows: q, k, v, each head by head), ``qkv.bias`` (3HK,),
    ``proj.weight`` (D, HK) and ``proj.bias`` (D,), and differ in :meth:`attend`, :meth:`core` or :meth:`forward`; one
    that replaces :meth:`forward` has no core that could be timed by itself, and declares ``whole=True``.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.heads, self.head_width = spec.heads, spec.head_width
        self.scale = spec.head_width**-0.5
        self.attention_dropout = spec.attention_dropout
        self.qkv = nn.Linear(spec.dim, 3 * spec.heads_width, bias=spec.qkv_bias)
        self.proj = nn.Linear(spec.heads_width, spec.dim)
        self.proj_dropout = nn.Dropout(spec.dropout)
        norm, gate, bias = (registry.chosen(slot, getattr(spec, slot)) for slot in ("qk_norm", "gate", "bias"))
        self.q_norm, self.k_norm, self.gate, self.bias = norm(spec), norm(spec), gate(spec), bias(spec)

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """Mix the tokens. ``rotation`` turns queries and keys by position, see :func:`rotate`."""
        return self.project(self.core(self.qkv(tokens), rotation), tokens)

    def project(self, mixed: Tensor, tokens: Tensor) -> Tensor:
        """Heads side by side (B, N, HK), and what attention was given (B, N, D) → its output (B, N, D)."""
        out: Tensor = self.proj_dropout(self.proj(self.gate(mixed, tokens)))
        return out

    def core(self, qkv: Tensor, rotation: Tensor | None = None) -> Tensor:
        """Attention between the projections: (B, N, 3HK), q, k and v side by side → (B, N, HK), heads side by side."""
        q, k, v = self.split(qkv, rotation)
        return self.attend(q, k, v).transpose(1, 2).flatten(2)

    def split(self, qkv: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N, 3HK) → queries, keys and values, (B, H, N, K) each: views of it unless normalised or rotated."""
        q, k, v = qkv.unflatten(-1, (3, self.heads, self.head_width)).permute(2, 0, 3, 1, 4).unbind(0)
        return rotate(self.q_norm(q), rotation), rotate(self.k_norm(k), rotation), v

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of every head: (B, H, N, K) → (B, H, N, K)."""
        raise NotImplementedError

    def maps(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """Attention probabilities (B, H, N, N), row = query: what every exact component computes on the way."""
        q, k, _ = self.split(self.qkv(tokens), rotation)
        probabilities: Tensor = self.scores(q, k).softmax(dim=-1)
        return probabilities

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """(B, H, N, K) twice → scaled scores (B, H, N, N), with the bias of components that offer "bias".

        The queries are scaled, as in timm, not the scores, which are N/K times as many.
        """
        scores: Tensor = q * self.scale @ k.transpose(-2, -1)
        bias = self.bias()
        return scores if bias is None else scores + bias.to(scores.dtype)

    @property
    def dropout_now(self) -> float:
        """Probability with which attention probabilities are dropped in the present mode."""
        return self.attention_dropout if self.training else 0.0


def rotate(x: Tensor, rotation: Tensor | None) -> Tensor:
    """Turn pairs (i, i + K/2) of each vector by the angle of its token.

    Args:
        x: (B, H, N, K) queries or keys.
        rotation: cosines and sines: (2, N, K), or (2, H, N, K) where each head has its own, and (2, B, 1 or H, N, K)
            where each image has its own tokens; None leaves x as it is.

    Source: RoFormer, Su et al. 2021, arXiv 2104.09864, eq. 34, in the half-split pairing of GPT-NeoX.
    """
    if rotation is None:
        return x
    cos, sin = rotation.unbind(0)
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


class MLP(Sublayer):
    """Tokens (B, N, D) → tokens (B, N, D), each by itself: ``up`` to the hidden width, an activation, ``down``."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.up = nn.Linear(spec.dim, spec.hidden)
        self.down = nn.Linear(spec.hidden, spec.dim)
        self.dropout = nn.Dropout(spec.dropout)

    def activate(self, hidden: Tensor, /) -> Tensor:
        """The activation function."""
        raise NotImplementedError

    def forward(self, tokens: Tensor) -> Tensor:
        """Transform each token."""
        hidden = self.dropout(self.activate(self.up(tokens)))
        out: Tensor = self.dropout(self.down(hidden))
        return out


class _WithLoss(torch.autograd.Function):
    """x as it is; backward, the loss has the gradient that the model's own has, 1."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, loss: Tensor) -> Tensor:
        """x."""
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """A number of the loss' type and place."""
        ctx.save_for_backward(inputs[1].detach())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """(gradient of x, 1)."""
        return grad, torch.ones_like(ctx.saved_tensors[0])


def with_loss(x: Tensor, loss: Tensor) -> Tensor:
    """x, and a component's own loss, a scalar, beside it: it is added to the loss that the model is trained for.

    Its gradient is that of the sum; the loss that is shown is the model's alone. x needs a part in that one.
    Source: Dai et al. 2024, DeepSeekMoE, arXiv 2401.06066; its modeling_deepseek.py, AddAuxiliaryLoss.
    """
    out: Tensor = _WithLoss.apply(x, loss)
    return out


Transform = Callable[[Tensor], Tensor]
Join = Callable[[Tensor, Tensor], Tensor]  # A sublayer's input and output → tokens
Step = Callable[[int, Tensor, Transform], Tensor]  # Number of a norm and residual, tokens, what is done → tokens


class Residual(SpecModule):
    """Joins a sublayer's input and output; each sublayer has one, with weights of its own."""

    passes: ClassVar[bool] = True
    """Whether the input is passed on beside the output."""

    def forward(self, tokens: Tensor, output: Tensor) -> Tensor:
        """A sublayer's input (B, N, D) and output (B, N, D) → tokens (B, N, D)."""
        raise NotImplementedError


class BlockForm(nn.Module):
    """How a block is put together. Stateless: the block owns sublayers, norms and residuals, and hands them in."""

    shares_norm: ClassVar[bool] = False
    """The block has one norm and one residual, and not one for each sublayer."""

    def forward(self, tokens: Tensor, sublayers: Sequence[Transform], step: Step) -> Tensor:
        """Tokens (B, N, D) → (B, N, D).

        Args:
            tokens: of the block before.
            sublayers: attention and MLP, as far as they are there.
            step: number of a norm and residual, tokens, what is done with them → tokens, by the norm's placement.
        """
        raise NotImplementedError


class Placement(nn.Module):
    """Where a block's norm stands. Stateless: the block owns norm and sublayer, and hands them in."""

    normalizes: ClassVar[bool] = True
    """The block needs a norm for each sublayer."""

    normalizes_output: ClassVar[bool] = False
    """The sublayer that is handed in ends with a norm of its own."""

    sublayer: str = ""
    """Slot of the sublayer that it stands at, the first where several share a norm; a block sets it."""

    def forward(self, tokens: Tensor, sublayer: Transform, norm: Transform, join: Join) -> Tensor:
        """One sublayer step. ``join(tokens, output)`` is the residual connection, or the output alone without it."""
        raise NotImplementedError


class Positions(SpecModule):
    """Places of the patches, as the model learns them: added to the tokens, or turned into queries and keys."""

    of_tokens: ClassVar[bool] = False
    """What is added depends on the tokens: there is no table of it."""

    rotation: Tensor | None
    """(2, N, K) cosines and sines for :func:`rotate`, where they are the same in every pass; or None."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.register_buffer("rotation", None, persistent=False)

    def turning(self) -> Tensor | None:
        """The rotation for one forward pass: (2, N, K), or (L, 2, H, N, K) where each block and head has its own."""
        return self.rotation

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, N, D) with positions added, where this component adds any."""
        return tokens


class Reduction(SpecModule):
    """Fewer tokens from block to block: what is done with the tokens between two blocks.

    Tokens that are no patches (class token, registers) come first, and stay.
    """

    def forward(self, tokens: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A block's output → what the next one is given.

        Args:
            tokens: (B, N, D).
            sizes: (B, N, 1), of how many each was made.

        Returns:
            Tokens (B, N', D), their sizes (B, N', 1), and the numbers (B, N') of the tokens in whose place each is.
        """
        raise NotImplementedError


class Pooling(SpecModule):
    """Encoder output (B, N, D) → one vector for each image, (B, D).

    The fact ``prefix`` says how many tokens :meth:`prepend` puts before those of the patches, ``vectors`` how many
    vectors it gives, side by side.
    """

    def prepend(self, tokens: Tensor) -> Tensor:
        """Tokens of the patches → tokens that enter the encoder."""
        return tokens

    def forward(self, tokens: Tensor) -> Tensor:
        """Pool."""
        raise NotImplementedError

    def shares(self, tokens: Tensor) -> Tensor | None:
        """Share of each token in the pooled vector, (B, N), not negative, of sum 1: whose attention counts.

        None of one that pools in another way than by a weighted mean of the tokens.
        """
        return None

    def for_teacher(self, tokens: Tensor) -> Tensor:
        """A second vector (B, D) that is to answer a teacher: of components that offer "teacher"."""
        raise NotImplementedError


def flat_patches(images: Tensor, patch_size: tuple[int, int]) -> Tensor:
    """(B, C, height, width) → (B, N, C·P·P), each patch flattened as a convolution's weight is. Columns by unfold."""
    return F.unfold(images, patch_size, stride=patch_size).transpose(1, 2)


class Runtime:
    """Prepares a finished model to be run, and gives the function that is called in its place.

    Only whole models have one, in inference: training, and the timing of parts, go without. It is prepared once, for
    one shape; what that takes is in no latency, but on a CPU in the peak of memory.
    """

    def __init__(self, spec: ModelSpec) -> None: ...

    def prepare(self, module: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
        """Images (B, C, height, width) of the example's shape, dtype and device → logits (B, classes).

        Args:
            module: in evaluation mode, initialised, on its device. It may be changed: it is not called afterwards.
            example: such images.
        """
        return module


def as_onnx(module: nn.Module, example: Tensor) -> bytes:
    """A module as an ONNX file, for inputs of the example's shape; needs the packages onnx and onnxscript."""
    program = torch.onnx.export(module, (example,), dynamo=True, verbose=False, external_data=False)
    assert program is not None
    model: bytes = program.model_proto.SerializeToString()
    return model
