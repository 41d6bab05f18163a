"""Real CIFAR-10 images: read, split, augmented."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import functional as TF  # the field's habit

from vitbench.config import DataSpec, ModelSpec, TrainSpec
from vitbench.data.batches import Batches, crop_and_flip
from vitbench.data.catalog import identity
from vitbench.data.images import Images
from vitbench.data.load import read, splits
from vitbench.streams import derive

MODEL = ModelSpec(dim=32, depth=1)


def folder(path: Path, **changes: object) -> DataSpec:
    return DataSpec.model_validate({"name": "image_folder", "path": str(path), **changes})


def test_every_image_is_read_as_it_is(lossless: Path) -> None:
    dataset = read(folder(lossless))
    assert (len(dataset.train), len(dataset.test)) == (5000, 1000)
    assert dataset.class_names[:3] == ("airplane", "automobile", "bird")
    files = sorted((lossless / "train" / "bird").iterdir())
    index = int((dataset.train.labels == 2).nonzero()[0])
    assert np.array_equal(np.asarray(Image.open(files[0])), dataset.train.pixels[index].permute(1, 2, 0).numpy())
    again = read(folder(lossless))  # from the cache
    assert again.checksum() == dataset.checksum() and torch.equal(again.test.pixels, dataset.test.pixels)


def test_splits_are_disjoint_whole_and_drawn_by_the_seed(lossless: Path) -> None:
    spec = folder(lossless, validation_images=500)
    one, same, other = (splits(spec, MODEL, seed) for seed in (1, 1, 2))
    assert (len(one.train), len(one.validation), len(one.test)) == (4500, 500, 1000)
    assert torch.equal(one.validation.pixels, same.validation.pixels)
    assert not torch.equal(one.validation.pixels, other.validation.pixels)
    rows = torch.cat([one.train.pixels, one.validation.pixels]).flatten(1)
    whole = read(spec).train.pixels.flatten(1)
    assert torch.equal(torch.unique(rows, dim=0), torch.unique(whole, dim=0))
    assert torch.equal(one.test.pixels, other.test.pixels)


def test_normalised_images_have_mean_zero_and_deviation_one(lossless: Path) -> None:
    data = splits(folder(lossless), MODEL, 0)
    x = data.normalise(data.train.pixels)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std(dim=(0, 2, 3)), torch.ones(3), atol=1e-4, rtol=0)
    imagenet = splits(folder(lossless, normalize="imagenet"), MODEL, 0)
    reference = TF.normalize(data.test.pixels[:9] / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    torch.testing.assert_close(imagenet.normalise(data.test.pixels[:9]), reference)
    as_they_are = splits(folder(lossless, normalize="none"), MODEL, 0)
    torch.testing.assert_close(as_they_are.normalise(data.test.pixels[:9]), data.test.pixels[:9] / 255)


def test_resizing_is_torchvisions(lossless: Path) -> None:
    images = read(folder(lossless)).test[torch.arange(20)]
    theirs = TF.resize(images.pixels, [56, 48], antialias=True)
    assert int((images.resized((56, 48)).pixels.int() - theirs.int()).abs().max()) <= 1


def test_crop_and_flip_are_torchvisions_image_by_image(lossless: Path) -> None:
    pixels = read(folder(lossless)).test.pixels[:64]
    stream = torch.Generator().manual_seed(0)
    shift, mirror = torch.randint(0, 9, (64, 2), generator=stream), torch.rand(64, generator=stream) < 0.5
    results = crop_and_flip(pixels, shift, mirror, padding=4)
    for image, (top, left), flipped, result in zip(pixels, shift.tolist(), mirror, results, strict=True):
        wanted = TF.crop(TF.pad(image, [4, 4, 4, 4]), top, left, 32, 32)
        assert torch.equal(result, TF.hflip(wanted) if flipped else wanted)
    assert mirror.any() and not mirror.all() and len(torch.unique(shift, dim=0)) > 30


def test_an_epoch_has_every_image_once_in_a_fresh_order(lossless: Path) -> None:
    data = splits(folder(lossless, train_images=300), MODEL, 0)
    numbered = replace(data, train=Images(data.train.pixels, torch.arange(300)))
    batches = Batches(numbered, TrainSpec(batch_size=128), seed=5)
    assert len(batches) == 3
    orders = [torch.cat([batch.labels for batch in batches.epoch(n)]) for n in range(2)]
    assert all(sorted(o.tolist()) == list(range(300)) for o in orders) and not torch.equal(*orders)
    again = torch.cat([batch.labels for batch in Batches(numbered, TrainSpec(batch_size=50), seed=5).epoch(0)])
    assert torch.equal(again, orders[0]), "the order does not depend on the batch size"
    recipe = TrainSpec(batch_size=128, crop_padding=4, flip=True)
    augmented = Batches(numbered, recipe, seed=5)
    assert torch.equal(torch.cat([batch.labels for batch in augmented.epoch(0)]), orders[0])
    assert batches.digest() != augmented.digest() != Batches(numbered, recipe, seed=6).digest()


def test_streams_are_separate() -> None:
    seeds = {derive(s, stream) for s in range(20) for stream in ("init", "order", "augmentation", "dropout", "split")}
    assert len(seeds) == 100


def test_a_tree_without_splits_is_cut_once_and_for_all(lossless: Path) -> None:
    spec = folder(lossless / "test", test_images=200)
    one, two = read(spec), read(spec)
    assert (len(one.train), len(one.test)) == (800, 200) and len(one.class_names) == 10
    assert torch.equal(one.test.pixels, two.test.pixels)
    assert len(read(folder(lossless / "test")).test) == 200


def test_identity_is_that_of_the_images_wherever_they_lie(lossless: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(lossless / "test", copy)
    assert identity(folder(copy)) == identity(folder(lossless / "test"))
    next((copy / "dog").iterdir()).unlink()
    assert identity(folder(copy)) != identity(folder(lossless / "test"))
