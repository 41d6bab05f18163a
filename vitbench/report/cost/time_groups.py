"""Time groups: which timings may be compared with one another."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class TimeGroup:
    """Timings that may be compared: one device, dtype, batch size, mode, level and shape."""

    device: str
    dtype: str
    batch_size: int
    mode: str
    level: str = "model"
    shape: str = ""

    @property
    def setting(self) -> str:
        """All but the mode, as a heading."""
        return f"{self.what}{self.device}, {self.dtype}, batch size {self.batch_size}"

    @property
    def title(self) -> str:
        """As a heading."""
        return f"{self.setting}, {self.mode_name}"

    @property
    def what(self) -> str:
        """The part of a model that is timed, and its shape; empty for whole models."""
        return "" if self.level == "model" else f"{self.level.replace('_', ' ')} ({self.shape}), "

    @property
    def mode_name(self) -> str:
        """The mode as a reader says it: what it is for a whole model, and for a part of one."""
        if self.mode != "train":
            return self.mode
        return "training step" if self.level == "model" else "forward and backward"

    @property
    def item(self) -> str:
        """What a batch has so many of: what comes after the patching are sequences of tokens."""
        return "image" if self.level in ("model", "patching") else "sequence"

    @property
    def rate(self) -> str:
        """Unit of throughput."""
        return f"{self.item}s/s"

    @property
    def slug(self) -> str:
        """As part of a file's name."""
        part = "" if self.level == "model" else re.sub(r"[^A-Za-z0-9]+", "-", f"{self.level} {self.shape}") + "-"
        return f"{part}{self.device}-{self.dtype}-{self.batch_size}-{self.mode}"
