"""Named random streams: each use of randomness in a trial has a seed of its own, derived by hash.

So the same seed gives every cell the same data order, augmentation and split, whatever else the cell draws.
"""

import hashlib
from typing import Literal

Stream = Literal["init", "order", "augmentation", "dropout", "split", "inputs", "subset", "pretraining", "teacher"]


def derive(seed: int, stream: Stream, *parts: str | int) -> int:
    """Seed of a named stream (63 bits, as torch.Generator takes), or of one part of it (a parameter, an epoch)."""
    text = "\0".join([str(seed), stream, *map(str, parts)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
