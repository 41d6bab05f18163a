"""Fewer tokens from block to block."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.components.cases import SMALL
from tests.components.test_formulas import B, D, tokens
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import TrainSpec
from vitbench.config.trial import mismatches
from vitbench.model.build import build_model
from vitbench.model.counting import forward_flops
from vitbench.model.encoder import chosen
from vitbench.runner.cost import approximate_flops

SPEC = SMALL.model_copy(update={"reduction": "merge(by=3)", "registers": 1, "depth": 3})
FIRST = SPEC.prefix


def by_hand(tokens: Tensor, sizes: Tensor, by: int, *, joined: bool) -> dict[int, tuple[Tensor, float]]:
    """One image: number of a token → what stands in its place, and of how many it is made."""
    entries = {n: (tokens[n] * sizes[n], float(sizes[n])) for n in range(len(tokens))}
    patches = range(FIRST, len(tokens))
    ones, others = patches[::2], patches[1::2]

    def alike(a: int, b: int) -> float:
        return float(tokens[a] @ tokens[b]) / float((tokens[a] @ tokens[a]) * (tokens[b] @ tokens[b])) ** 0.5

    partner = {a: max(others, key=lambda b, a=a: alike(a, b)) for a in ones}
    for a in sorted(ones, key=lambda a: -alike(a, partner[a]))[:by]:
        sums, size = entries.pop(a)
        into = entries[partner[a]]
        entries[partner[a]] = (into[0] + sums, into[1] + size) if joined else into
    return {n: (sums / size, size) for n, (sums, size) in entries.items()}


@pytest.mark.parametrize("name", ["merge", "prune"])
@pytest.mark.parametrize("patches", [16, 15])
def test_the_most_similar_pairs_are_merged_weighted_by_their_sizes_or_one_is_pruned(patches: int, name: str) -> None:
    spec = SPEC.model_copy(update={"reduction": f"{name}(by=3)"})
    merge, x = chosen("reduction", spec)(spec), tokens(1, B, FIRST + patches, D)
    sizes = torch.randint(1, 5, (B, FIRST + patches, 1), generator=torch.Generator().manual_seed(2)).double()
    out, of, kept = merge(x, sizes)
    assert out.shape == (B, FIRST + patches - 3, D) and kept[:, :FIRST].tolist() == [[*range(FIRST)]] * B
    assert torch.equal(of.sum(dim=1), sizes.sum(dim=1)) == (name == "merge")
    for image in range(B):
        wanted = by_hand(x[image], sizes[image, :, 0], 3, joined=name == "merge")
        assert sorted(kept[image].tolist()) == sorted(wanted)
        for place, number in enumerate(kept[image].tolist()):
            torch.testing.assert_close(out[image, place], wanted[number][0])
            assert float(of[image, place]) == pytest.approx(wanted[number][1])


@pytest.mark.parametrize("name", ["merge", "prune"])
def test_a_patch_that_is_alone_stays(name: str) -> None:
    """As an image of one patch has it, or one of few after some blocks."""
    spec = SPEC.model_copy(update={"reduction": name, "patch_size": 8, "depth": 5})
    model, given = build_model(spec, seed=0).eval(), list[int]()
    for block in model.encoder.blocks:
        block.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].shape[1] - FIRST))
    assert model(torch.randn(2, 3, 16, 16)).isfinite().all()
    assert given == spec.patches_by_block() == [4, 2, 1, 1, 1]


def passed(model: nn.Module, images: Tensor) -> tuple[list[tuple[Tensor, Tensor]], list[Tensor]]:
    """Tokens and rotation that each block is given, and the numbers of the tokens that each reduction keeps."""
    given, kept = list[Any](), list[Tensor]()
    for block in model.encoder.blocks:
        block.register_forward_pre_hook(lambda _, inputs: given.append(inputs))
    for reduction in model.encoder.reductions:
        reduction.register_forward_hook(lambda _, __, out: kept.append(out[2]))
    model(images)
    return given, kept


@pytest.mark.parametrize("positions", ["learned", "rope_2d"])
def test_each_block_is_given_fewer_patches_turned_by_the_places_they_stand_for(positions: str) -> None:
    spec = SPEC.model_copy(update={"positions": positions})
    model = build_model(spec, seed=0).double().eval()
    given, kept = passed(model, tokens(0, 2, 3, 16, 16))
    assert spec.patches_by_block() == [16, 13, 10]
    assert [x.shape[1] for x, _ in given] == [FIRST + n for n in spec.patches_by_block()]
    if positions == "rope_2d":
        first = model.positions.rotation
        for image in range(2):
            places = kept[0][image]
            assert torch.equal(given[1][1][:, image, 0], first[:, places])
            assert torch.equal(given[2][1][:, image, 0], first[:, places[kept[1][image]]])


def test_fewer_tokens_are_fewer_operations_and_half_of_them_are_the_least() -> None:
    def operations(by: int, depth: int = 3) -> int:
        spec = ModelSpec(dim=64, depth=depth, heads=2, reduction=f"merge(by={by})")
        assert forward_flops(spec) == approximate_flops(spec)
        return forward_flops(spec)

    assert operations(8) < operations(4) < operations(2)
    assert ModelSpec(depth=4, reduction="merge(by=4096)").patches_by_block() == [64, 32, 16, 8]


def test_what_takes_all_tokens_goes_with_none_of_it() -> None:
    for slot, name in (("attention", "token_mlp"), ("bias", "relative")):
        conflicts = SPEC.model_copy(update={slot: name}).conflicts()
        assert f'{slot} "{name}" needs every patch, and reduction "merge(by=3)" makes them fewer' in conflicts
    assert mismatches(SPEC, TrainSpec(pretrain_epochs=1))[0][0] == "pretrain_epochs"
    with pytest.raises(ValueError, match="leaves no map of all tokens"):
        build_model(SPEC, seed=0).attention_maps(torch.randn(1, 3, 16, 16))


def test_a_head_with_a_hidden_layer_is_no_probe() -> None:
    ((field, message),) = mismatches(SMALL.model_copy(update={"head": "pre_logits"}), TrainSpec(frozen=True))
    assert field == "frozen" and "no linear layer" in message
