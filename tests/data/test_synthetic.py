"""Synthetic images: what is known of each cue by construction, shown exactly, on images without noise."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from tests.small import train_trial
from vitbench.config import DataSpec, ModelSpec
from vitbench.config.trial import TrainTrial
from vitbench.data import catalog
from vitbench.data.catalog import DataError, drawn_from, mismatches
from vitbench.data.load import prepare, read
from vitbench.data.sources.synthetic import RELATIONS, Draws, class_names, draw, paint, parts
from vitbench.model.build import build_model

N = 200
CUES = ("colour", "texture", "position", "relation")


def only(cue: str, classes: int, **changes: object) -> DataSpec:
    counts = {f"{c}_classes": classes if c == cue else 0 for c in CUES}
    return DataSpec.model_validate({"name": "synthetic", "pixel_noise": 0.0, **counts, **changes})


def draws(n: int = N, seed: int = 3) -> Draws:
    return draw(n, torch.Generator().manual_seed(seed))


def swapped(of: Draws) -> Draws:
    """Draws in which the other part of a relation is the light one."""
    return replace(of, uniform=(of.uniform + torch.eye(8)[6] / 2) % 1)


def each_class(spec: DataSpec, of: Draws) -> list[Tensor]:
    """One set of chances painted as each of the classes, (n, 3, height, width) each."""
    n = len(of.row)
    return [paint(torch.full((n,), label), of, spec) for label in range(len(class_names(spec)))]


def patches(images: Tensor, side: int) -> Tensor:
    """(n, patches, pixels), row by row."""
    return torch.nn.functional.unfold(images, side, stride=side).transpose(1, 2)


def bags(images: Tensor, side: int) -> list[list[tuple[float, ...]]]:
    """The multiset of patches of each image."""
    return [sorted(map(tuple, image.tolist())) for image in patches(images, side)]


def model(spec: DataSpec, **changes: object) -> torch.nn.Module:
    fields = {"dim": 32, "depth": 2, "heads": 4, "patch_size": 8, "init_std": 0.1, "pooling": "mean"}
    classes = len(class_names(spec))
    return build_model(ModelSpec.model_validate({**fields, "num_classes": classes, **changes}), seed=1).eval()


@torch.no_grad()
def logits(of: torch.nn.Module, images: Tensor) -> Tensor:
    out: Tensor = of(images - 0.5)
    return out


def place(images: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) row and column of the only block that is not grey, which must be one and whole."""
    coloured = (images != 0.5).any(dim=1).unflatten(2, (4, -1)).unflatten(1, (4, -1))  # n, row, y, column, x
    blocks = coloured.any(dim=4).any(dim=2).flatten(1)
    assert (blocks.sum(dim=1) == 1).all()
    return blocks.int().argmax(dim=1) // 4, blocks.int().argmax(dim=1) % 4


def objects(images: Tensor) -> Tensor:
    """(n, 3, height / 4, width / 4) the block that is not grey."""
    row, column = place(images)
    blocks = images.unflatten(3, (4, -1)).unflatten(2, (4, -1))  # n, 3, row, y, column, x
    return blocks[torch.arange(len(images)), :, row, :, column]


def test_by_default_ten_classes_as_a_stand_in_for_cifar10() -> None:
    dataset = read(DataSpec(name="synthetic", train_images=1003, test_images=100))
    assert len(dataset.class_names) == 10 and [n.split()[0] for n in dataset.class_names] == (
        ["colour"] * 4 + ["texture"] * 3 + ["position"] * 3
    )
    assert set(torch.bincount(dataset.train.labels, minlength=10).tolist()) == {100, 101}
    assert torch.bincount(dataset.test.labels).tolist() == [10] * 10


@pytest.mark.parametrize("size", [32, 16, (16, 24)])
@pytest.mark.parametrize("cue", CUES[:3])
def test_an_object_fills_one_block_and_the_rest_is_grey(cue: str, size: int | tuple[int, int]) -> None:
    spec, chances = only(cue, 3, resize=size), draws()
    for label, images in enumerate(each_class(spec, chances)):
        row, column = place(images)
        assert torch.equal(column, chances.column)
        wanted = torch.full((N,), (0, 1, 3)[label]) if cue == "position" else chances.row
        assert torch.equal(row, wanted)
        whole = (objects(images) != 0.5).any(dim=1)
        assert whole[:, 0].any(dim=1).all() and whole[:, -1].any(dim=1).all()  # its first and its last row of pixels


def test_colour_is_told_by_hue_alone() -> None:
    spec, chances = only("colour", 4), draws()
    phases = torch.arange(3) * 2 * torch.pi / 3
    for label, images in enumerate(each_class(spec, chances)):
        block = objects(images)
        assert torch.equal(block, block[:, :, :1, :1].expand_as(block)), "no texture, no shape"
        colour = block[:, :, 0, 0] - 0.5
        hue = torch.atan2(colour @ phases.sin(), colour @ phases.cos()) / (2 * torch.pi) * 4
        assert ((hue - label + 2) % 4 - 2).abs().max() < 0.26
        light = colour.sum(dim=1) / (1.5 * 0.45)
        torch.testing.assert_close(light, 0.6 + 0.4 * chances.uniform[:, 2])


@pytest.mark.parametrize("side", [8, 4])
def test_texture_is_told_by_one_patch_and_mirrors_keep_it(side: int) -> None:
    spec = only("texture", 3)
    for label, images in enumerate(each_class(spec, draws())):
        for image in (images, images.flip(3)):
            block = objects(image)[:, :, :side, :side].sum(dim=1) - 1.5
            across, down = (block.diff(dim=d).square().mean(dim=(1, 2)).sqrt() for d in (2, 1))
            slant = torch.atan2(down, across) / (torch.pi / 4)
            assert torch.equal(slant.round(), torch.full((N,), float(label)))


def test_texture_and_position_have_no_hue_of_their_own() -> None:
    for cue in ("texture", "position"):
        images = each_class(only(cue, 3), draws())
        energy = [(objects(i) - 0.5).abs().amax(dim=(2, 3)) for i in images]
        hues = [e.argmax(dim=1) for e in energy]
        assert all(torch.equal(h, hues[0]) for h in hues) and set(hues[0].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("side", [4, 8])
@pytest.mark.parametrize(("cue", "classes"), [("position", 4), ("position", 3), ("relation", 3)])
def test_classes_of_place_are_the_same_bag_of_patches(cue: str, classes: int, side: int) -> None:
    """So a model that takes patches as a set is right by chance alone: noise has the same law for each pixel."""
    first, *others = each_class(only(cue, classes), draws(50))
    assert all(bags(other, side) == bags(first, side) for other in others)
    assert all(not torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("cue", ["position", "relation"])
def test_without_positions_a_model_cannot_tell_classes_of_place(cue: str, pooling: str) -> None:
    spec = only(cue, 3)
    first, second, third = each_class(spec, draws(50))
    blind, seeing = (model(spec, pooling=pooling, positions=p) for p in ("none", "sinusoidal_2d"))
    for other in (second, third):
        torch.testing.assert_close(logits(blind, other), logits(blind, first), atol=1e-5, rtol=0)
        assert (logits(seeing, other) - logits(seeing, first)).abs().max() > 1e-3


def test_each_block_of_a_relation_looks_the_same_in_each_class() -> None:
    """Light in one half of the draws and dark in the other, of the same shades: by itself no block tells the class."""
    spec, chances = only("relation", 3), draws(50)
    pairs = list(zip(each_class(spec, chances), each_class(spec, swapped(chances)), strict=True))
    both = [torch.stack([patches(i, 8), patches(j, 8)]) for i, j in pairs]
    assert all(torch.equal(b.sort(dim=0).values, both[0].sort(dim=0).values) for b in both)
    assert all(not torch.equal(b[0], both[0][0]) for b in both[1:])
    agree = parts()[:, None] == parts()[None]
    assert torch.equal(agree.sum(dim=2), torch.full((3, 3), 8).fill_diagonal_(16)) and len(RELATIONS) == 3

    models = (model(spec, positions="sinusoidal_2d", attention=a) for a in ("none", "sdpa"))
    additive, mixing = ([logits(m, i) + logits(m, j) for i, j in pairs] for m in models)
    for label in (1, 2):  # a sum over tokens has the same mean logits in each class, whatever its weights
        torch.testing.assert_close(additive[label], additive[0], atol=1e-5, rtol=0)
        assert (mixing[label] - mixing[0]).abs().max() > 1e-3


@pytest.mark.parametrize("cue", ["colour", "texture"])
def test_an_object_is_the_same_wherever_it_lies(cue: str) -> None:
    spec, chances = only(cue, 3), draws()
    moved = replace(chances, row=chances.row.roll(1), column=chances.column.roll(7))
    for here, there in zip(each_class(spec, chances), each_class(spec, moved), strict=True):
        assert torch.equal(objects(here), objects(there)) and not torch.equal(here, there)


def test_a_mirrored_relation_is_the_same_relation() -> None:
    spec, chances = only("relation", 3), draws()
    for images, other in zip(each_class(spec, chances), each_class(spec, swapped(chances)), strict=True):
        same = [torch.equal(m, i) or torch.equal(m, t) for m, i, t in zip(images.flip(3), images, other, strict=True)]
        assert all(same)


def test_each_setting_changes_what_it_must_and_nothing_else() -> None:
    spec = DataSpec(name="synthetic", train_images=500, test_images=300, relation_classes=2)
    base, again = read(spec), read(spec)
    assert base.checksum() == again.checksum()
    assert not torch.equal(base.train.pixels[:300], base.test.pixels)

    clean = read(spec.model_copy(update={"pixel_noise": 0.0}))
    assert torch.equal(clean.train.labels, base.train.labels)
    grey = clean.train.pixels == 128  # elsewhere noise may be cut off at black and white
    noise = (base.train.pixels.float() - clean.train.pixels.float())[grey] / 255
    assert abs(float(noise.mean())) < 3e-3 and abs(float(noise.std()) - 0.12) < 1e-3  # 128 is 0.002 above 0.5
    louder = read(spec.model_copy(update={"pixel_noise": 0.24}))
    twice = (louder.train.pixels.float() - clean.train.pixels.float())[grey] / 255
    assert float((twice - 2 * noise).abs().median()) < 5e-3

    other = read(spec.model_copy(update={"image_seed": 1}))
    assert not torch.equal(other.train.labels, base.train.labels)
    assert not torch.equal(other.test.pixels, base.test.pixels) and other.class_names == base.class_names
    fewer = read(spec.model_copy(update={"test_images": 100}))
    assert torch.equal(fewer.train.pixels, base.train.pixels)
    assert len(read(spec.model_copy(update={"colour_classes": 12})).class_names) == 20


def test_what_shapes_the_pixels_is_in_the_id_and_defaults_are_not() -> None:
    def id_of(**changes: object) -> str:
        data = DataSpec.model_validate({"name": "synthetic", **changes})
        return train_trial(data=data).id

    ids = {id_of(), id_of(pixel_noise=0.2), id_of(image_seed=1), id_of(colour_classes=3), id_of(relation_classes=1)}
    assert len(ids) == 5 and id_of(pixel_noise=0.12, image_seed=0, colour_classes=4) == id_of()
    assert catalog.identity(DataSpec(name="synthetic")) == "synthetic:2"
    plain: TrainTrial = train_trial(data=DataSpec(name="mnist"))
    assert set(plain.canonical()["data"]) == {"name", "identity"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"resize": 30}, "data.resize: 30×30, but synthetic images are a grid of 4×4 blocks: each side a multiple"),
        ({"resize": (32, 12)}, "data.resize: 32×12, but synthetic images are a grid of 4×4 blocks"),
        ({"colour_classes": 1, "texture_classes": 0, "position_classes": 0}, ": 1, and telling apart takes two"),
    ],
)
def test_images_that_cannot_be_made_are_refused(changes: dict[str, object], expected: str) -> None:
    spec = DataSpec.model_validate({"name": "synthetic", **changes})
    with pytest.raises(DataError, match=expected):
        read(spec)
    assert any(expected in message for message in mismatches(ModelSpec(), spec, None)), "known before anything is read"


def test_other_images_have_none_of_these_settings() -> None:
    with pytest.raises(ValidationError, match=r"0\.5, but only data\.name"):
        DataSpec(name="cifar10", pixel_noise=0.5)


def test_cells_keep_their_cues_on_the_images_that_were_prepared() -> None:
    counts = {"train_images": 50, "test_images": 20}
    base = DataSpec.model_validate({"name": "synthetic", **counts})
    cell = only("relation", 2, **counts)
    prepared = prepare(base, [base, cell])
    assert {s.relation_classes: f.classes for s, f in prepared.facts.items()} == {0: 10, 2: 2}
    wanted = DataSpec.model_validate({"name": "cifar10", "fallback": "synthetic", **counts})
    standing_in = drawn_from(wanted, wanted.model_copy(update={"name": "synthetic"}))
    assert len(read(standing_in).class_names) == 10
