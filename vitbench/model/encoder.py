"""Blocks, and the encoder that stacks them."""

from typing import Any

import torch
from torch import Tensor, nn

from vitbench import registry
from vitbench.components.contracts import BlockForm, Placement, Sublayer, Transform
from vitbench.config.model import ModelSpec


def chosen(slot: str, spec: ModelSpec) -> Any:
    """The class of the component that a spec puts into a slot, its options bound; its base is the slot's contract."""
    return registry.chosen(slot, spec.components[slot])


class DropPath(nn.Module):
    """Stochastic depth: in training, a sublayer's output is left out for a whole image with probability ``rate``.

    Source: Huang et al. 2016, arXiv 1603.09382; scaled by the rate of survival as in timm.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        if not self.training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        return x * torch.empty(x.shape[0], 1, 1, device=x.device, dtype=x.dtype).bernoulli_(keep).div_(keep)


SUBLAYERS = ("attention", "mlp")


class Block(nn.Module):
    """Attention and MLP, each with norm and residual as the spec places them; an empty sublayer is passed over."""

    def __init__(self, spec: ModelSpec, drop_path: float, number: int = 0) -> None:
        super().__init__()
        norm_layer, residual = chosen("norm_layer", spec), chosen("residual", spec)
        self.form: BlockForm = chosen("block", spec)()
        self.drop_path = DropPath(drop_path)
        self.present = [name for name in SUBLAYERS if not spec.leaves_out(name)]
        self.stepping = self.present[:1] if self.form.shares_norm else self.present
        """Sublayers, and those of them that have a norm and a residual."""
        for name in SUBLAYERS:
            steps, placed = name in self.stepping, chosen("norm", spec)()
            placed.sublayer = name
            sublayer: Sublayer | None = chosen(name, spec)(spec) if name in self.present else None
            if sublayer is not None:
                sublayer.block = number
            self.add_module(name, sublayer)
            self.add_module(f"{name}_placement", placed)
            self.add_module(f"{name}_norm", norm_layer(spec) if steps and placed.normalizes else None)
            self.add_module(f"{name}_output_norm", norm_layer(spec) if steps and placed.normalizes_output else None)
            self.add_module(f"{name}_residual", residual(spec) if steps else None)

    def forward(self, tokens: Tensor, rotation: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D)."""
        attention, mlp = (getattr(self, name) for name in SUBLAYERS)
        takes: dict[str, Transform] = {"attention": lambda x: attention(x, rotation), "mlp": mlp}
        out: Tensor = self.form(tokens, [takes[name] for name in self.present], self.step)
        return out

    def step(self, number: int, tokens: Tensor, sublayer: Transform) -> Tensor:
        """A sublayer with a norm, in its place, and a residual connection with stochastic depth."""
        name = self.stepping[number]
        placed: Placement = getattr(self, f"{name}_placement")
        norm, output_norm, residual = (getattr(self, f"{name}_{part}") for part in ("norm", "output_norm", "residual"))
        out: Tensor = placed(
            tokens,
            sublayer if output_norm is None else lambda x: output_norm(sublayer(x)),
            norm,
            lambda before, output: residual(before, self.drop_path(output) if residual.passes else output),
        )
        return out


class Encoder(nn.Module):
    """``depth`` blocks, a reduction of the tokens between them and one more norm, where the spec has them."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        last = max(spec.depth - 1, 1)
        self.blocks = nn.ModuleList(Block(spec, spec.drop_path * i / last, i) for i in range(spec.depth))
        between = 0 if spec.leaves_out("reduction") else spec.depth - 1
        self.reductions = nn.ModuleList(chosen("reduction", spec)(spec) for _ in range(between))
        self.final_norm = chosen("norm_layer", spec)(spec) if spec.final_norm else nn.Identity()

    def forward(self, tokens: Tensor, rotation: Tensor | None = None, places: Tensor | None = None) -> Tensor:
        """(B, N, D) → (B, N, D).

        Args:
            tokens: of images.
            rotation: of queries and keys, see :meth:`vitbench.components.contracts.Positions.turning`.
            places: (B, N) numbers of the tokens in the rotation, where some are left out; None: it is of these.
        """
        sizes = tokens.new_ones(*tokens.shape[:2], 1) if self.reductions else None
        for number, block in enumerate(self.blocks):
            if number and self.reductions:
                tokens, sizes, kept = self.reductions[number - 1](tokens, sizes)
                places = kept if places is None else places.gather(1, kept)
            own = rotation if rotation is None or rotation.ndim == 3 else rotation[number]
            tokens = block(tokens, own if own is None or places is None else _at(own, places))
        out: Tensor = self.final_norm(tokens)
        return out


def _at(rotation: Tensor, places: Tensor) -> Tensor:
    """The rotation (2, N, K) or (2, H, N, K) of some tokens of each image, (B, N') → (2, B, 1 or H, N', K)."""
    by_head = rotation.reshape(2, 1, -1, *rotation.shape[-2:]).expand(-1, len(places), -1, -1, -1)
    return by_head.gather(3, places[None, :, None, :, None].expand(2, -1, by_head.shape[2], -1, rotation.shape[-1]))
