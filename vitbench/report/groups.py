"""Groups: training runs, and timings, of one device and environment, over which means may be taken."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vitbench.analysis.conclusions import Conclusions
from vitbench.report.document import Heading

RUNS = "training run"  # The mode of training runs, whose speed is that of their median step


def ending(letter: str) -> str:
    """The letter of an environment as the ending of a file's name; a question mark would end the path of a link."""
    return f"-{letter if letter.isalnum() else 'unknown'}" if letter else ""


@dataclass(frozen=True)
class TimeGroup:
    """Timings that may be compared: one device, dtype, batch size, mode, level and shape, and one environment."""

    device: str
    dtype: str = ""
    batch_size: int = 0
    mode: str = RUNS
    level: str = "model"
    shape: str = ""
    environment: str = ""  # its key; empty where nothing has a result
    letter: str = ""  # of the environment; empty if the setting was timed in one only

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its heading; the mode is the last."""
        parts = self.what, self.device, self.dtype, f"batch size {self.batch_size}{self.on}", self.mode_name
        return tuple(filter(None, parts))

    @property
    def setting(self) -> str:
        """Its heading without the mode."""
        return ", ".join(self.parts[:-1])

    @property
    def on(self) -> str:
        """Its environment as the end of a heading; empty where it is the only one."""
        return f" on {self.letter}" if self.letter else ""

    @property
    def title(self) -> str:
        """Its heading."""
        return ", ".join(self.parts)

    @property
    def what(self) -> str:
        """The part of a model that is timed, and its shape; empty for whole models."""
        return "" if self.level == "model" else f"{self.level.replace('_', ' ')} ({self.shape})"

    @property
    def mode_name(self) -> str:
        """The mode as a reader says it: what it is for a whole model, and for a part of one."""
        if self.mode != "train":
            return self.mode
        return "training step" if self.level == "model" else "forward and backward"

    @property
    def item(self) -> str:
        """The unit of a batch: images, or sequences of tokens for parts that come after the patching."""
        return "image" if self.level in ("model", "patching") else "sequence"

    @property
    def slug(self) -> str:
        """Its part of a file's name."""
        part = "" if self.level == "model" else re.sub(r"[^A-Za-z0-9]+", "-", f"{self.level} {self.shape}") + "-"
        return f"{part}{self.device}-{self.dtype}-{self.batch_size}-{self.mode}{ending(self.letter)}"


@dataclass(frozen=True)
class Group:
    """Training runs of one device and one environment, over which means may be taken."""

    device: str
    environment: str  # key of the one whose results these are; empty where nothing has one
    letter: str  # of the environment; empty if its device has one only
    label: str  # its name among the groups; empty if there is only one
    conclusions: Conclusions | None  # verdicts on its runs; None where nothing has a result

    @property
    def on(self) -> str:
        """Its name as the end of a heading; empty where it is the only one."""
        return f" on {self.label}" if self.label else ""

    @property
    def heading(self) -> list[Heading]:
        """Its name as a heading; none where it is the only one."""
        return [Heading(f"On {self.label}")] if self.label else []

    @property
    def name(self) -> str:
        """Its name, or its device where it is the only one."""
        return self.label or self.device

    @property
    def slug(self) -> str:
        """Ending of its files' names where these name its device; empty if that has one environment only."""
        return ending(self.letter)

    @property
    def ending(self) -> str:
        """Its name as the ending of a file's; empty where it is the only one."""
        return "".join(f"-{word}" for word in re.findall(r"\w+", self.label))
