"""Trials: one unit of work each, and the identity by which it is found again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from vitbench.spec.base import Positive, Seed, Strict, digest
from vitbench.spec.model import ModelSpec
from vitbench.spec.recipe import DataSpec, DType, Mode, TimeSpec, TrainSpec

Device = Literal["cpu", "cuda", "mps"]

HOW_TO_COME_BY = frozenset({"path", "download", "fallback"})
"""Fields of DataSpec that lead to the images and do not change them: the data's identity stands in their place."""


class TrainTrial(Strict):
    """A cell trained with one seed on one type of device."""

    kind: Literal["train"]
    model: ModelSpec
    data: DataSpec
    train: TrainSpec
    seed: Seed
    device: Device
    data_identity: str = Field(description="what the images are, wherever they lie; see vitbench.data.catalog")

    def canonical(self) -> dict[str, Any]:
        """What the id is made of."""
        data = {k: v for k, v in self.data.canonical().items() if k not in HOW_TO_COME_BY}
        return {
            "kind": self.kind,
            "model": self.model.canonical(),
            "data": {**data, "identity": self.data_identity},
            "train": self.train.canonical(),
            "seed": self.seed,
            "device": self.device,
        }

    @property
    def id(self) -> str:
        """Hash of the canonical spec; the same on every machine and under every version of the code."""
        return digest(self.canonical())

    @property
    def dtype(self) -> DType:
        """The floating-point type in which the components compute."""
        return self.train.precision

    @property
    def training(self) -> bool:
        """Whether a backward pass is needed."""
        return True


class TimeTrial(Strict):
    """A cell timed on one type of device, dtype, batch size and mode."""

    kind: Literal["time"]
    model: ModelSpec
    protocol: TimeSpec
    device: Device
    dtype: DType
    batch_size: Positive
    mode: Mode

    def canonical(self) -> dict[str, Any]:
        """What the id is made of."""
        return {
            "kind": self.kind,
            "model": self.model.canonical(),
            "protocol": self.protocol.canonical(),
            "device": self.device,
            "dtype": self.dtype,
            "batch_size": self.batch_size,
            "mode": self.mode,
        }

    @property
    def id(self) -> str:
        """Hash of the canonical spec; the same on every machine and under every version of the code."""
        return digest(self.canonical())

    @property
    def training(self) -> bool:
        """Whether a backward pass is needed."""
        return self.mode == "train"


Trial = Annotated[TrainTrial | TimeTrial, Field(discriminator="kind")]
