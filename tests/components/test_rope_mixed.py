"""Rotary positions learned by block and head: by complex numbers, as the authors turn them, and wherever they go."""

import cmath
import math

import pytest
import torch

from tests.components.cases import SMALL
from tests.components.test_formulas import tokens
from tests.components.test_reduction import passed
from vitbench.components.contracts import rotate
from vitbench.config.model import ModelSpec
from vitbench.model.build import build_model
from vitbench.model.vit import VisionTransformer

MIXED = SMALL.model_copy(update={"positions": "rope_2d_mixed(base=7)", "image_size": (16, 24), "heads": 2})
H, K = MIXED.heads, MIXED.head_width


def learned(spec: ModelSpec) -> VisionTransformer:
    """A model whose frequencies are no longer those that it began with."""
    model = build_model(spec, seed=0).double().eval()
    assert isinstance(model, VisionTransformer)
    with torch.no_grad():
        model.positions.offsets.copy_(0.3 * tokens(1, *model.positions.offsets.shape))
    return model


def test_each_pair_is_turned_by_row_and_column_at_its_head_s_frequencies() -> None:
    model, x = learned(MIXED), tokens(0, 1, H, MIXED.tokens, K)
    rotations, offsets = model.positions.turning().detach(), model.positions.offsets.detach()
    for block, head, token, i in ((0, 0, 0, 3), (0, 1, 9, 2), (1, 0, 24, 0), (1, 1, 13, K // 2 - 1)):
        row, column = divmod(token - 1, 6) if token else (0, 0)
        way = 2 * math.pi * ((block * H + head) * (math.sqrt(5) - 1) / 2 % 1) + (i >= K // 4) * math.pi / 2
        falling = 7 ** (-(i % (K // 4)) / (K // 4))
        by_row, by_column = (float(offsets[axis, block, head, i]) for axis in (0, 1))
        angle = row * (falling * math.sin(way) + by_row) + column * (falling * math.cos(way) + by_column)
        turned = rotate(x, rotations[block])[0, head, token]
        wanted = complex(float(x[0, head, token, i]), float(x[0, head, token, i + K // 2])) * cmath.exp(1j * angle)
        assert complex(float(turned[i]), float(turned[i + K // 2])) == pytest.approx(wanted, abs=1e-5)


def test_they_start_as_the_authors_but_for_the_directions() -> None:
    """naver-ai/rope-vit, init_random_2d_freqs: half of the pairs along a direction, half across, θ^(-4i/K)."""
    by_row, by_column = build_model(MIXED, seed=0).positions.initial
    length = torch.hypot(by_row, by_column)
    torch.testing.assert_close(length, (7 ** -(torch.arange(0, K, 4) / K)).repeat(2).expand_as(length))
    along, across = torch.atan2(by_row, by_column).chunk(2, dim=-1)
    torch.testing.assert_close(torch.cos(across - along), torch.zeros_like(along), rtol=0, atol=1e-6)
    assert len(set(along[..., 0].flatten().tolist())) == MIXED.depth * H, "each head has a direction of its own"


@pytest.mark.parametrize("attention", ["per_head", "sdpa", "triton"])
def test_implementations_agree_and_each_block_has_its_own(attention: str) -> None:
    model, images = learned(MIXED), tokens(0, 2, 3, 16, 24)
    if attention == "triton" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    other = learned(MIXED.model_copy(update={"attention": attention}))
    torch.testing.assert_close(other(images), model(images))
    with torch.no_grad():
        model.positions.offsets[:, 1] += 1.0
    assert not torch.allclose(other(images), model(images))


def test_fewer_tokens_are_turned_by_the_places_they_stand_for() -> None:
    spec = MIXED.model_copy(update={"reduction": "prune(by=3)", "depth": 3})
    model = learned(spec)
    given, kept = passed(model, tokens(0, 2, 3, 16, 24))
    rotations = model.positions.turning()
    assert torch.equal(given[0][1], rotations[0])
    for image in range(2):
        places = kept[0][image]
        assert torch.equal(given[1][1][:, image], rotations[1][:, :, places])
        assert torch.equal(given[2][1][:, image], rotations[2][:, :, places[kept[1][image]]])


def test_what_shares_keys_among_heads_is_refused_by_rule() -> None:
    assert MIXED.model_copy(update={"attention": "grouped"}).conflicts() == [
        'positions "rope_2d_mixed(base=7)" needs "rotary by head", which attention "grouped" does not offer'
    ]
