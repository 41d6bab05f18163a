"""Images in class folders: decoded once, then kept as one safetensors file."""

import hashlib
import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageFile
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from vitbench.config.base import pair
from vitbench.config.recipe import DataSpec
from vitbench.data import catalog
from vitbench.data.catalog import FORMATS, IMAGE_SUFFIXES, DataError, folder_images
from vitbench.data.images import DataSet, Images
from vitbench.store.files import write_atomically
from vitbench.streams import derive
from vitbench.wording import encoded, printable

TEST_FRACTION = 0.2
"""Of the images of a tree without train/ and test/, the part that is kept for the test where no number is given."""
SHOWN = 5

MOST_PIXELS = 100_000_000
"""The most that one image may have before it is resized: 300 MB of memory. A file of a few kilobytes can claim any."""

MODES = frozenset({"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})
"""Of Pillow: 8 bits a channel at the most. Deeper ones ("I;16", "F") would be clipped to white, not scaled."""


DEEP = re.compile(";16[BLN]")
"""In Pillow's name of how pixels are stored: 16 bits a channel, of which it would keep the higher 8."""


def read(spec: DataSpec) -> DataSet:
    """The images of ``<path>/train/<class>/…`` and ``<path>/test/<class>/…``, or of ``<path>/<class>/…``.

    Where there is no ``test``, ``val`` is the test split, as in ImageNet's layout and published results on it.

    A tree without ``train`` is split by the harness: the test images are drawn once and for all, the same in every
    trial. Images of different sizes need ``data.resize`` (the whole image is brought to that size).

    An image is what the first bytes of its file say, in one of the formats of :data:`vitbench.data.catalog.FORMATS`.
    Refused are images of more than 8 bits a channel, of more than ``MOST_PIXELS`` pixels and of several frames, and
    classes without a train or a test image. A folder may be a link to one.

    Raises:
        DataError: naming the files that cannot be read or do not fit, and counting them.
    """
    path = catalog.folder(spec)
    base, whole_tree = {"train": path}, not (path / "train").is_dir()
    if not whole_tree:
        tested = [place for name in ("test", "val") if (place := path / name).is_dir()]
        if not tested:
            raise DataError(f"{path}: has train/ but neither test/ nor val/")
        base = {"train": path / "train", "test": tested[0]}
    files = {part: list(folder_images(place)) for part, place in base.items()}
    class_of_each = {part: [class_of(file, base[part]) for file in of] for part, of in files.items()}
    classes = tuple(sorted(set(class_of_each["train"])))
    if len(classes) < 2:
        raise DataError(f"{base['train']}: holds {len(classes)} class folder, and telling apart takes two")
    folders = {each.name for each in base["train"].iterdir() if each.is_dir() and not each.name.startswith(".")}
    if bare := sorted(folders - set(classes)):
        kinds = ", ".join(sorted(IMAGE_SUFFIXES))
        raise DataError(f"{base['train']}: {len(bare)} class folder(s) without an image ({kinds}): {_some(bare)}")
    if strange := set().union(*class_of_each.values()) - set(classes):
        raise DataError(f"{path}: classes that train/ does not have: {', '.join(sorted(strange))}")
    size = pair(spec.resize) if spec.resize is not None else None

    cache = catalog.cache() / f"{_key(path, files, size)}.safetensors"
    decoded = cached(cache)
    if decoded is None or set(decoded) != set(files):
        decoded = {
            part: Images(decode(of, size), torch.tensor([classes.index(name) for name in class_of_each[part]]))
            for part, of in files.items()
        }
        keep(cache, decoded)
    train = decoded["train"]
    names = tuple(map(printable, classes))
    if not whole_tree:
        return _tested(DataSet(train, decoded["test"], names), path)
    count = spec.test_images if spec.test_images is not None else round(TEST_FRACTION * len(train))
    if count >= len(train):
        raise DataError(f"data.test_images: {count} leaves nothing of {len(train)} images")
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(derive(0, "subset", "test tree")))
    return _tested(DataSet(train[order[count:]], train[order[:count]], names), path)


def _tested(dataset: DataSet, path: Path) -> DataSet:
    """Return the data set unchanged. Raises DataError where a class has no test image, and so no part in accuracy."""
    there = set(dataset.test.labels.tolist())
    if without := [name for label, name in enumerate(dataset.class_names) if label not in there]:
        raise DataError(f"{path}: {len(without)} class(es) without a test image: {_some(without)}")
    return dataset


def _some(names: Sequence[str]) -> str:
    more = f", … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def class_of(file: Path, base: Path) -> str:
    """The class of an image below ``base``: the first folder there that it lies in. Raises DataError for none."""
    inside = file.parts[len(base.parts) :]  # relative_to takes ten times as long, and a tree has many files
    if len(inside) < 2:
        raise DataError(f"{file}: lies in no class folder")
    return inside[0]


def decode(files: Sequence[Path], size: tuple[int, int] | None) -> torch.Tensor:
    """Images in files, (n, 3, height, width) uint8, each brought to a size (bilinear), or all of one.

    Raises:
        DataError: naming every file that cannot be read or does not fit.
    """
    first: tuple[int, int] | None = size
    arrays, bad = [], []
    for file in files:
        try:
            rgb = _rgb(file)
        except Exception as error:  # whatever a decoder makes of a damaged file
            bad.append(f"{file}: {error or type(error).__name__}")
            continue
        if size is not None and (rgb.height, rgb.width) != size:
            rgb = rgb.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        first = first or (rgb.height, rgb.width)
        if (rgb.height, rgb.width) != first:
            bad.append(
                f"{file}: {rgb.height}×{rgb.width}, and the first image is {first[0]}×{first[1]}; set data.resize"
            )
            continue
        arrays.append(np.asarray(rgb))
    if bad:
        more = f"\n… and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise DataError(f"{len(bad)} of {len(files)} images cannot be used:\n" + "\n".join(bad[:SHOWN]) + more)
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).contiguous()


def _rgb(file: Path) -> Image.Image:
    """An image with 8 bits a channel. Raises ValueError where it is none that is read, or what its decoder raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # of fewer pixels than are refused here
        with Image.open(file, formats=list(FORMATS)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{image.height}×{image.width}, and an image has at most {MOST_PIXELS:,} pixels")
            if image.mode not in MODES or _deep(image):
                raise ValueError(f"mode {image.mode} has more than 8 bits a channel; convert it")
            # Telephones put further pictures behind the photograph (MPO), which are no frames of it.
            if image.format != "MPO" and (frames := getattr(image, "n_frames", 1)) > 1:
                raise ValueError(f"{frames} frames, and an image has one")
            return image.convert("RGB")


def _deep(image: ImageFile.ImageFile) -> bool:
    """Whether the file has more than 8 bits a channel, which Pillow leaves out where there are three channels."""
    arguments = [each for *_, args in image.tile for each in (args if isinstance(args, tuple) else (args,))]
    of_ppm = any(isinstance(each, int) and each > 255 for each in arguments) and image.format == "PPM"
    return of_ppm or any(isinstance(each, str) and DEEP.search(each) for each in arguments)


def _key(path: Path, files: dict[str, list[Path]], size: tuple[int, int] | None) -> str:
    """Changes with any name, size or time of modification."""
    whole = hashlib.sha256(json.dumps([str(path.resolve()), size]).encode())
    for file in (f for fs in files.values() for f in fs):
        stat = file.stat()
        whole.update(encoded(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\n"))
    return whole.hexdigest()[:24]


def cached(cache: Path) -> dict[str, Images] | None:
    """Parts of a data set as :func:`keep` wrote them; None where they are not there, or damaged."""
    if not cache.is_file():
        return None
    try:
        with safe_open(cache, framework="pt") as stored:
            parts = sorted({key.partition(".")[0] for key in stored.keys()})  # noqa: SIM118  # not a mapping
            return {p: Images(stored.get_tensor(f"{p}.pixels"), stored.get_tensor(f"{p}.labels")) for p in parts}
    except SafetensorError:
        return None  # a damaged cache is made anew


def keep(cache: Path, decoded: dict[str, Images]) -> None:
    """Write decoded images, so that they are decoded once."""
    tensors = {
        f"{part}.{name}": t for part, i in decoded.items() for name, t in (("pixels", i.pixels), ("labels", i.labels))
    }
    with catalog.filled_cache():
        write_atomically(cache, save(tensors))
