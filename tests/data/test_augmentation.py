"""Each operation, policy and mix against torchvision's definition, image by image."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms import RandAugment, RandomErasing, TrivialAugmentWide, v2
from torchvision.transforms import functional as tv

from tests.small import DATA, MODEL
from vitbench.config import TrainSpec
from vitbench.data import batches
from vitbench.data.augmentation import boxes, mixing
from vitbench.data.augmentation.mixing import Mixes
from vitbench.data.augmentation.policies import (
    BINS,
    NAMES,
    OPERATIONS,
    DrawnOperations,
    Policy,
    randaugment,
    trivialaugment,
)
from vitbench.data.batches import Batches
from vitbench.data.load import splits

SIZE = (32, 28)
STRONGEST = {"posterize": 2.0, "solarize": 100.0, "translate_x": 9.0, "translate_y": 9.0, "rotate": 77.0}


def theirs(name: str, image: Tensor, strength: float) -> Tensor:
    """What torchvision's policies do to one image."""

    def shear(degrees: list[float]) -> Tensor:
        return tv.affine(image, angle=0.0, translate=[0, 0], scale=1.0, shear=degrees, center=[0, 0])

    def move(pixels: list[int]) -> Tensor:
        return tv.affine(image, angle=0.0, translate=pixels, scale=1.0, shear=[0.0, 0.0])

    angle = math.degrees(math.atan(strength))
    return {
        "identity": lambda: image,
        "shear_x": lambda: shear([angle, 0.0]),
        "shear_y": lambda: shear([0.0, angle]),
        "translate_x": lambda: move([int(strength), 0]),
        "translate_y": lambda: move([0, int(strength)]),
        "rotate": lambda: tv.rotate(image, strength),
        "brightness": lambda: tv.adjust_brightness(image, 1.0 + strength),
        "colour": lambda: tv.adjust_saturation(image, 1.0 + strength),
        "contrast": lambda: tv.adjust_contrast(image, 1.0 + strength),
        "sharpness": lambda: tv.adjust_sharpness(image, 1.0 + strength),
        "posterize": lambda: tv.posterize(image, int(strength)),
        "solarize": lambda: tv.solarize(image, strength),
        "autocontrast": lambda: tv.autocontrast(image),
        "equalize": lambda: tv.equalize(image),
    }[name]()


@pytest.fixture(scope="module")
def pixels() -> Tensor:
    """Smooth images, noise, and images with a channel of one value, (24, 3, 32, 28)."""
    chance = torch.Generator().manual_seed(0)
    coarse = torch.rand(16, 3, 5, 4, generator=chance)
    smooth = torch.nn.functional.interpolate(coarse, SIZE, mode="bicubic").clamp(0, 1)
    noise = torch.rand(8, 3, *SIZE, generator=chance)
    noise[:4, 1] = 0.3
    return (torch.cat([smooth, noise]) * 255).to(torch.uint8)


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_is_torchvisions(name: str, pixels: Tensor) -> None:
    operation, n = OPERATIONS[name], len(pixels)
    strongest = STRONGEST.get(name, 0.9)
    strengths = np.linspace(-strongest if operation.signed else min(strongest, 8.0), strongest, n)
    if name == "posterize":
        strengths = np.arange(n) % 7 + 2.0
    strengths = strengths.astype(np.float32).astype(np.float64)
    parameters = torch.from_numpy(operation.parameters(strengths, SIZE)).float()
    ours = operation.apply(pixels, parameters) if operation.apply else pixels
    expected = torch.stack([theirs(name, image, s) for image, s in zip(pixels, strengths.tolist(), strict=True)])
    assert ours.dtype == torch.uint8 and ours.shape == pixels.shape
    # A place that lies halfway between two pixels may be rounded either way.
    assert (ours != expected).float().mean() <= (0.002 if name in ("shear_x", "shear_y", "rotate") else 0.0)
    assert name == "identity" or (ours != pixels).any()


THEIR_NAMES = {"colour": "Color", "autocontrast": "AutoContrast", "shear_x": "ShearX", "shear_y": "ShearY",
               "translate_x": "TranslateX", "translate_y": "TranslateY"}  # fmt: skip


@pytest.mark.parametrize("policy", [randaugment(2, 9), trivialaugment()], ids=["randaugment", "trivialaugment"])
def test_strengths_are_torchvisions(policy: Policy) -> None:
    space = (
        TrivialAugmentWide()._augmentation_space(BINS)
        if policy.level is None
        else RandAugment()._augmentation_space(BINS, SIZE)
    )
    assert [THEIR_NAMES.get(name, name.capitalize()) for name in NAMES] == list(space)
    for name, (magnitudes, signed) in zip(NAMES, space.values(), strict=True):
        assert OPERATIONS[name].signed == signed
        expected = magnitudes.double().expand(BINS).numpy()
        np.testing.assert_array_equal(policy.strengths(SIZE)[name], expected)


def test_strengths_of_timm_s_levels_are_timm_s() -> None:
    theirs = pytest.importorskip("timm.data.auto_augment")
    of_theirs = {
        "rotate": theirs._rotate_level_to_arg, "shear_x": theirs._shear_level_to_arg,
        "translate_x": theirs._translate_rel_level_to_arg, "brightness": theirs._enhance_increasing_level_to_arg,
        "posterize": theirs._posterize_increasing_level_to_arg, "solarize": theirs._solarize_increasing_level_to_arg,
    }  # fmt: skip
    ours = randaugment(2, 9, "timm").strengths(SIZE)
    unit = {"translate_x": SIZE[1]}
    for name, of_level in of_theirs.items():
        for level in range(11):
            (given,) = of_level(level, {})
            given = abs(given - 1.0) if name == "brightness" else abs(given)
            assert ours[name][level] == pytest.approx(unit.get(name, 1) * given, rel=1e-6), (name, level)


def draw(policy: Policy, images: int, seed: int = 0) -> DrawnOperations:
    return policy.draw(images, SIZE, torch.Generator().manual_seed(seed), torch.device("cpu"))


@pytest.mark.parametrize("policy", [randaugment(2, 9), trivialaugment()], ids=["randaugment", "trivialaugment"])
def test_each_image_meets_its_own_operations(policy: Policy, pixels: Tensor) -> None:
    drawn = draw(policy, len(pixels))
    together = drawn.apply(pixels, slice(0, len(pixels)))
    alone = torch.cat([drawn.apply(pixels[i : i + 1], slice(i, i + 1)) for i in range(len(pixels))])
    assert torch.equal(together, alone)
    assert torch.equal(together[10:20], drawn.apply(pixels[10:20], slice(10, 20)))
    assert not torch.equal(together, draw(policy, len(pixels), seed=1).apply(pixels, slice(0, len(pixels))))
    unchanged = (drawn.operation == NAMES.index("identity")).all(axis=1)
    assert torch.equal(together[unchanged], pixels[unchanged])


def test_every_operation_is_drawn_as_often_as_any_other() -> None:
    drawn = draw(randaugment(2, 9), 14_000)
    counts = torch.bincount(torch.from_numpy(drawn.operation).flatten(), minlength=len(NAMES)).double()
    assert ((counts - 2000).abs() < 5 * math.sqrt(2000)).all()
    shares = drawn.parameters[drawn.operation == NAMES.index("brightness")]
    assert sorted(set(shares[:, 0].tolist())) == pytest.approx([0.73, 1.27]), "level 9 of 30, both signs"


def drawn_mixes(images: int, *, mixup: float, cutmix: float, seed: int) -> Mixes:
    return mixing.draw(images, SIZE, mixup=mixup, cutmix=cutmix, chance=np.random.default_rng(seed))


def test_mixup_is_torchvisions(pixels: Tensor) -> None:
    images, n = pixels.float(), len(pixels)
    mixes = drawn_mixes(n, mixup=0.8, cutmix=0.0, seed=3)
    assert not mixes.cut.any() and mixes.share.min() < 0.4 and mixes.share.max() > 0.6
    ours = mixes.images(images)
    for i, share in enumerate(mixes.share.tolist()):
        torch.testing.assert_close(ours[i], share * images[i] + (1 - share) * images[i - 1])


def test_cutmix_is_torchvisions(pixels: Tensor) -> None:
    images, n = pixels.float(), len(pixels)
    mixes = drawn_mixes(n, mixup=0.0, cutmix=1.0, seed=3)
    assert mixes.cut.all()
    ours = mixes.images(images)
    top, left, bottom, right = mixes.boxes.unbind(1)
    for i in range(n):
        expected = images[i].clone()
        part = (slice(None), slice(top[i], bottom[i]), slice(left[i], right[i]))
        expected[part] = images[i - 1][part]
        assert torch.equal(ours[i], expected)
        replaced = (expected != images[i]).any(dim=0).float().mean()
        assert replaced <= 1 - mixes.share[i] + 1e-6
    area = ((bottom - top) * (right - left)).double() / math.prod(SIZE)
    torch.testing.assert_close(1 - area, mixes.share.double(), atol=1e-6, rtol=0)


def test_boxes_of_cutmix_are_torchvisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """One centre and one share give one box."""
    share = np.random.default_rng(0).random(50)
    rectangles = boxes.cutmix(share, SIZE, np.random.default_rng(1))
    chance = np.random.default_rng(1)
    columns, rows = chance.integers(SIZE[1], size=50), chance.integers(SIZE[0], size=50)
    mix = v2.CutMix(num_classes=10)
    for i in range(50):
        drawn = iter([torch.tensor([columns[i]]), torch.tensor([rows[i]])])
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randint", lambda *_, drawn=drawn, **__: next(drawn))
            patch.setattr(mix, "_dist", type("One", (), {"sample": lambda _, __, s=share[i]: torch.tensor(s)})())
            params = mix.make_params([torch.zeros(4, 3, *SIZE)])
        x1, y1, x2, y2 = params["box"]
        assert [int(v) for v in (y1, x1, y2, x2)] == rectangles[i].tolist()
        assert params["lam_adjusted"] == pytest.approx(float(boxes.outside(rectangles[i : i + 1], SIZE)[0]))


def test_both_mixes_share_the_images_evenly() -> None:
    mixes = drawn_mixes(10_000, mixup=0.8, cutmix=1.0, seed=0)
    assert 0.48 < mixes.cut.float().mean() < 0.52
    assert (mixes.boxes[~mixes.cut] == 0).all()


def test_erasing_draws_as_torchvision_does() -> None:
    """In the distribution: the shares of area, and how often an image is wiped at all."""
    n = 4000
    rectangles = boxes.erasing(n, SIZE, 0.25, np.random.default_rng(0))
    wiped = 1 - boxes.outside(rectangles, SIZE)
    assert (rectangles[:, 2] <= SIZE[0]).all() and (rectangles[:, 3] <= SIZE[1]).all() and (rectangles >= 0).all()
    assert abs((wiped > 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / n)
    torch.manual_seed(0)
    image = torch.zeros(3, *SIZE)
    them = [RandomErasing.get_params(image, boxes.SCALE, boxes.RATIO, [0.0]) for _ in range(1000)]
    areas = np.array([h * w for _, _, h, w, _ in them]) / math.prod(SIZE)
    for quantile in (0.1, 0.5, 0.9):
        assert np.quantile(wiped[wiped > 0], quantile) == pytest.approx(np.quantile(areas, quantile), abs=0.02)


def test_cutout_wipes_squares_that_the_edge_cuts() -> None:
    rectangles = boxes.cutout(5000, SIZE, 8, np.random.default_rng(0))
    tall, wide = rectangles[:, 2] - rectangles[:, 0], rectangles[:, 3] - rectangles[:, 1]
    assert tall.max() == wide.max() == 8 and tall.min() == wide.min() == 4
    mask = boxes.inside(torch.from_numpy(rectangles), SIZE)
    assert torch.equal(mask.sum(dim=(1, 2, 3)), torch.from_numpy(tall * wide))
    assert mask.float().mean(dim=0).min() > 0.01, "the corners too"


def test_nothing_is_drawn_from_the_callers_random_numbers(pixels: Tensor) -> None:
    before = torch.get_rng_state()
    draw(randaugment(2, 9), 10).apply(pixels[:10], slice(0, 10))
    drawn_mixes(10, mixup=0.8, cutmix=1.0, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("augment", ["randaugment", "trivialaugment", "none"])
def test_batches_that_are_made_together_are_those_made_one_by_one(
    augment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit, from any batch on, with a last one that is smaller; a chunk is of whole batches."""
    recipe = TrainSpec.model_validate(
        {"batch_size": 15, "augment": augment, "crop_padding": 2, "flip": True, "cutout": 4, "erasing": 0.5,
         "mixup": 0.8, "cutmix": 1.0, "repeats": 2}
    )  # fmt: skip
    data = splits(DATA, MODEL, 0)
    alone = Batches(data, recipe, 0, patches=16)
    assert alone.chunk == 1, "on a CPU"
    expected = list(alone.epoch(1))
    assert [len(batch) for batch in expected] == [15] * 10 + [10]
    for images, chunk in ((15, 1), (59, 3), (10_000, 666)):
        monkeypatch.setitem(batches.CHUNK_BYTES, "cpu", images * 3 * 16 * 16)
        together = Batches(data, recipe, 0, patches=16)
        assert together.chunk == chunk and together.digest() == alone.digest()
        for first in (0, 4, 10):
            actual = list(together.epoch(1, first))
            assert len(actual) == 11 - first
            for one, other in zip(actual, expected[first:], strict=True):
                assert all(map(torch.equal, one.tensors(), other.tensors()))
                assert len(one.tensors()) == len(other.tensors()) == 2 + 2 + 3 + 1
