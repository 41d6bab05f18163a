"""Options of a recipe: optimisers, the average of weights, augmentation, mixing. Each does what its name says."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.small import DATA, MODEL, recipe_with, train_trial
from tests.training.stages import CPU, silent
from vitbench.config import TrainSpec
from vitbench.data.batches import Batches
from vitbench.data.images import Images
from vitbench.data.load import splits
from vitbench.model.build import build_model
from vitbench.model.optimiser import make_optimiser
from vitbench.store import TrainValues
from vitbench.training.ema import Ema
from vitbench.training.loop import fit, train

OPTIONS: list[dict[str, Any]] = [
    {"optimizer": "muon"}, {"ema": 0.9}, {"augment": "randaugment"}, {"augment": "trivialaugment"},
    {"augment": "randaugment", "randaugment_operations": 3, "randaugment_level": 15}, {"cutout": 4}, {"erasing": 0.5},
    {"mixup": 0.8}, {"cutmix": 1.0}, {"mixup": 0.8, "cutmix": 1.0, "label_smoothing": 0.1}, {"repeats": 3},
]  # fmt: skip


def run(**changes: Any) -> TrainValues:
    return train(train_trial(train=recipe_with(**changes)), CPU, silent)


def batches(seed: int = 0, **changes: Any) -> Batches:
    return Batches(splits(DATA, MODEL, seed), recipe_with(**changes), seed)


@pytest.mark.parametrize("option", [o for o in OPTIONS if "repeats" not in o], ids=str)
def test_augmentation_leaves_the_order_as_it_is(option: dict[str, Any]) -> None:
    for plain, other in zip(batches().epoch(1), batches(**option).epoch(1), strict=True):
        assert torch.equal(plain.labels, other.labels)


@pytest.mark.parametrize(
    "option", [{"augment": "randaugment"}, {"mixup": 0.8, "cutmix": 1.0}, {"erasing": 0.5}], ids=str
)
def test_epochs_differ_and_an_epoch_may_be_begun_in_its_middle(option: dict[str, Any]) -> None:
    first, second = ([b.images() for b in batches(**option, flip=True).epoch(n)] for n in (0, 1))
    assert not torch.equal(first[0], second[0])
    late = [b.images() for b in batches(**option, flip=True).epoch(0, first=2)]
    assert len(late) == len(first) - 2 and all(map(torch.equal, late, first[2:]))


def test_the_order_of_the_images_is_the_seed_s_and_the_epoch_s() -> None:
    """Without augmentation, which differs by seed as well: the order alone."""
    images = Images(torch.zeros(50, 3, 4, 4, dtype=torch.uint8), torch.arange(50))
    data = replace(splits(DATA, MODEL, 0), train=images)

    def order(seed: int, epoch: int) -> tuple[int, ...]:
        return tuple(torch.cat([b.labels for b in Batches(data, TrainSpec(batch_size=12), seed).epoch(epoch)]).tolist())

    orders = {(seed, epoch): order(seed, epoch) for seed in (0, 1, 2) for epoch in (0, 1)}
    assert all(sorted(each) == list(range(50)) for each in orders.values())
    assert len(set(orders.values())) == 6 and order(1, 1) == orders[1, 1]


def test_repeats_show_an_image_several_times_in_a_batch_and_mixing_pairs_others() -> None:
    images = Images(torch.zeros(50, 3, 4, 4, dtype=torch.uint8), torch.arange(50))
    loader = Batches(replace(splits(DATA, MODEL, 0), train=images), TrainSpec(batch_size=12, repeats=3), seed=0)
    order = torch.cat([batch.labels for batch in loader.epoch(0)]).tolist()
    assert len(order) == 50 and len(loader) == 5
    assert sorted(Counter(order).values()) == [2] + [3] * 16
    for batch in loader.epoch(0):
        assert max(Counter(batch.labels.tolist()).values()) == 3 or len(batch) < 12
        assert len(batch) < 12 or not (batch.labels == batch.labels.roll(1, 0)).any(), "views of one image"


def test_wiped_places_are_the_mean_of_the_images_and_the_others_are_not() -> None:
    (batch, *_), (plain, *_) = batches(cutout=4).epoch(0), batches().epoch(0)
    images, untouched = batch.images(), plain.images()
    wiped = (images == 0).all(dim=1)
    assert (wiped.flatten(1).sum(dim=1) >= 4).all() and (wiped.flatten(1).sum(dim=1) <= 16).all()
    assert torch.equal(images.masked_select(~wiped[:, None]), untouched.masked_select(~wiped[:, None]))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_mixed_images_is_that_of_mixed_labels(smoothing: float) -> None:
    (batch, *_) = batches(mixup=0.8, cutmix=1.0).epoch(0)
    assert batch.mixes is not None
    logits = torch.randn(len(batch), 10, generator=torch.Generator().manual_seed(0))
    share = batch.mixes.share[:, None]
    soft = share * F.one_hot(batch.labels, 10) + (1 - share) * F.one_hot(batch.labels.roll(1, 0), 10)
    expected = F.cross_entropy(logits, soft, label_smoothing=smoothing)
    torch.testing.assert_close(batch.loss(logits, smoothing), expected)
    head = batch[:5]
    assert len(head) == 5 and head.mixes is not None and torch.equal(head.mixes.share, batch.mixes.share[:5])


def test_the_average_is_judged_in_the_models_place() -> None:
    trial = train_trial(train=recipe_with(ema=0.9, epochs=3))
    fitted = fit([trial], CPU, silent)
    judged = fitted.stepper.modules()["ema"]
    assert not all(map(torch.equal, judged.parameters(), fitted.stepper.module.parameters()))
    data = splits(DATA, MODEL, 0)
    pixels = data.normalise(data.test.pixels)
    assert torch.equal(fitted.stepper.judge([pixels])[0], judged.eval()(pixels))
    alone = fit([train_trial(train=recipe_with(epochs=3))], CPU, silent)
    assert all(map(torch.equal, alone.stepper.module.parameters(), fitted.stepper.module.parameters()))
    assert alone.state.epochs[0][-1].train_loss == fitted.state.epochs[0][-1].train_loss
    assert alone.state.epochs[0][-1].validation_loss != fitted.state.epochs[0][-1].validation_loss


def test_the_average_is_the_weighted_sum_of_all_steps() -> None:
    module, chance = torch.nn.Linear(2, 1), torch.Generator().manual_seed(0)
    ema, expected = Ema(module, 0.5), module.weight.detach().clone().double()
    for step in range(20):
        with torch.no_grad():
            module.weight.copy_(torch.randn(1, 2, generator=chance))
        ema.update(module, ema.share(step))
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * module.weight.detach().double()
    torch.testing.assert_close(next(iter(ema.module.parameters())).double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("patching", "filters"),
    [
        ("conv", set()),
        ("conv_tokenizer", {"weight"}),
        ("conv_stem", {"weight", "layers.3.weight"}),
        ("resnet_stem(blocks=1)", {"weight", *(f"layers.{stage}.conv{n}.weight" for stage in (3, 4, 5) for n in (1, 2)),
                                   *(f"layers.{stage}.downsample.0.weight" for stage in (4, 5))}),
    ],
)  # fmt: skip
def test_muon_moves_matrices_of_blocks_and_inner_filters_and_adamw_the_rest(patching: str, filters: set[str]) -> None:
    """Filters that are given pixels are the rest's, as Jordan et al. have it."""
    model = build_model(MODEL.model_copy(update={"patching": patching, "patch_size": 4}), seed=0)
    muon, adamw = make_optimiser(model, TrainSpec(optimizer="muon", weight_decay=0.1), CPU).parts
    names = {id(p): name for name, p in model.named_parameters()}
    theirs = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    of_blocks = {n for n, p in model.named_parameters() if n.startswith("encoder.blocks.") and p.ndim == 2}
    assert of_blocks and theirs == of_blocks | {f"patching.{name}" for name in filters}
    rest = [names[id(p)] for group in adamw.param_groups for p in group["params"]]
    assert len(rest) == len(set(rest)) and theirs | set(rest) == set(names.values()) and not theirs & set(rest)


def test_a_square_that_is_wiped_has_an_even_side() -> None:
    with pytest.raises(ValueError, match="cutout"):
        recipe_with(cutout=5)
