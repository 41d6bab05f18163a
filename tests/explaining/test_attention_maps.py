"""What attention maps say, against definitions written out by hand."""

import itertools
import math

import pytest
import torch

from tests.components.cases import NO_WEIGHTED_MEAN, SMALL
from vitbench import registry
from vitbench.components.contracts import rotate
from vitbench.config.model import ModelSpec
from vitbench.explaining import position_maps
from vitbench.explaining.attention_maps import attention_to_patches, between, distances, rollout
from vitbench.model.build import build_model

OBLONG = ModelSpec(image_size=(12, 16), patch_size=(3, 8), dim=32, depth=2, heads=2, pooling="cls")


def softmaxed(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)


def test_rollout_of_two_tokens_by_hand() -> None:
    """Heads averaged, half the identity added, layers multiplied, the last one on the left: worked out on paper."""
    first = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]])  # mean 1/2 everywhere
    second = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    # first: (1/2 + I)/2 = [[3/4, 1/4], [1/4, 3/4]]; second: [[1/2, 1/2], [0, 1]]
    wanted = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
    torch.testing.assert_close(rollout([first, second]), wanted)
    torch.testing.assert_close(rollout([first, second], residual=False), torch.full((1, 2, 2), 0.5))


def test_rollout_sums_over_all_paths() -> None:
    """Each entry is a sum over paths through the layers, of the product of what each step passes on."""
    maps = [softmaxed(1, 3, 4, 4), softmaxed(1, 3, 4, 4).flip(-1), softmaxed(1, 3, 4, 4).flip(-2)]
    steps = [(m.mean(dim=1)[0] + torch.eye(4)) / 2 for m in maps]
    entries = rollout(maps)[0]
    for end, start in itertools.product(range(4), repeat=2):
        paths = itertools.product(range(4), repeat=2)
        by_hand = sum(float(steps[2][end, b] * steps[1][b, a] * steps[0][a, start]) for a, b in paths)
        assert float(entries[end, start]) == pytest.approx(by_hand, abs=1e-6)
    torch.testing.assert_close(entries.sum(dim=-1), torch.ones(4))


@pytest.mark.parametrize("spec", [SMALL, OBLONG, SMALL.model_copy(update={"pooling": "mean"})])
def test_uniform_attention_reaches_as_far_as_patches_lie_apart(spec: ModelSpec) -> None:
    (rows, columns), n = spec.grid, spec.tokens
    height, width = (spec.patch_size, spec.patch_size) if isinstance(spec.patch_size, int) else spec.patch_size
    centres = [((r + 0.5) * height, (c + 0.5) * width) for r in range(rows) for c in range(columns)]
    apart = [math.dist(a, b) for a in centres for b in centres]
    reach = distances(torch.full((2, 3, n, n), 1.0 / n), spec)
    assert reach.shape == (2, 3)
    torch.testing.assert_close(reach, torch.full((2, 3), sum(apart) / len(apart)))


def test_a_head_that_attends_to_itself_reaches_nowhere_and_to_its_neighbour_one_patch() -> None:
    n = SMALL.tokens
    assert float(distances(torch.eye(n).expand(1, 1, n, n), SMALL).max()) == 0.0
    right = torch.zeros(n, n)
    for row, column in itertools.product(range(4), repeat=2):
        right[1 + 4 * row + column, 1 + 4 * row + (column ^ 1)] = 1.0  # a neighbour in the row
    right[0, 0] = 1.0
    assert float(distances(right.expand(1, 1, n, n), SMALL)) == pytest.approx(4.0)
    to_the_class = torch.zeros(n, n)
    to_the_class[:, 0] = 1.0
    assert distances(to_the_class.expand(1, 1, n, n), SMALL).isnan().all(), "it looks at no patch: there is no distance"
    assert float(between(OBLONG)[0, 1]) == 8.0 and float(between(OBLONG)[0, 2]) == 3.0


def test_the_class_token_and_the_mean_look_by_their_rows() -> None:
    attention, n = softmaxed(2, 3, 5, 5), 5
    one = torch.zeros(2, n)
    one[:, 0] = 1.0
    torch.testing.assert_close(attention_to_patches(one, attention, 1), attention[:, :, 0, 1:])
    alike = torch.full((2, n), 1.0 / n)
    torch.testing.assert_close(attention_to_patches(alike, attention, 0), attention.mean(dim=-2))


@pytest.mark.parametrize("registers", [0, 2])
@pytest.mark.parametrize("name", registry.names("pooling"))
def test_what_tokens_give_to_the_pooled_vector_is_what_is_pooled(name: str, registers: int) -> None:
    model = build_model(SMALL.model_copy(update={"pooling": name, "registers": registers}), seed=0)
    tokens = torch.randn(3, model.spec.tokens, 32)
    with torch.no_grad():
        shares = model.shares(tokens)
        assert (shares is None) == (name in NO_WEIGHTED_MEAN)
        if shares is None:
            return
        assert bool((shares >= 0).all())
        torch.testing.assert_close(shares.sum(dim=1), torch.ones(3))
        pooled = model.pooling(model.without_registers(tokens))
        torch.testing.assert_close((shares[..., None] * tokens).sum(dim=1), pooled)


@pytest.mark.parametrize("name", registry.names("positions"))
def test_what_is_added_is_what_positions_do_to_any_tokens(name: str) -> None:
    model = build_model(SMALL.model_copy(update={"positions": name}), seed=0)
    tokens = torch.randn(2, SMALL.tokens, 32)
    table = position_maps.added(model.positions, SMALL)
    if model.positions.of_tokens:
        assert table is None
        return
    with torch.no_grad():
        torch.testing.assert_close(model.positions(tokens), tokens if table is None else tokens + table)
    if table is not None:
        alike = position_maps.alike(table[1:])
        torch.testing.assert_close(alike.diagonal(), torch.ones(16))
        wanted = torch.nn.functional.cosine_similarity(table[3], table[9], dim=0)
        torch.testing.assert_close(alike[2, 8], wanted, check_dtype=False)


def test_rotations_are_as_alike_as_one_vector_turned_to_two_places() -> None:
    model = build_model(SMALL.model_copy(update={"positions": "rope_2d"}), seed=0)
    rotation = model.positions.rotation
    assert rotation is not None
    of_patches = rotation[:, 1:]
    turned = rotate(torch.ones(1, 1, 16, of_patches.shape[-1]), of_patches)[0, 0]
    wanted = torch.nn.functional.cosine_similarity(turned[:, None], turned[None], dim=-1)
    torch.testing.assert_close(position_maps.turned(of_patches), wanted, atol=1e-5, rtol=1e-5)
