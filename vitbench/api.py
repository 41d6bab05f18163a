"""The Python interface. torch and pandas are imported when a function that needs them is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitbench.config.model import ModelSpec
from vitbench.config.presets import preset

if TYPE_CHECKING:
    import pandas as pd

    from vitbench.model.build import Baseline
    from vitbench.model.vit import VisionTransformer


def build(spec: ModelSpec | str | Mapping[str, Any], seed: int = 0) -> VisionTransformer | Baseline:
    """The model that a spec describes, on the CPU in float32, with initial weights drawn from a seed.

    Args:
        spec: or its fields, such as ``{"dim": 64, "heads": 4}``, or a preset's name, such as ``"vit-s/16"``.
        seed: of the initial weights.

    Raises:
        ValueError: where fields contradict one another or components cannot be combined; the message says which.
    """
    from vitbench.model.build import build_model

    if isinstance(spec, str):
        spec = preset(spec)
    return build_model(spec if isinstance(spec, ModelSpec) else ModelSpec(**spec), seed)


def load_model(path: str | Path) -> VisionTransformer | Baseline:
    """The model whose weights a safetensors file of vitbench's holds, on the CPU in float32, in evaluation mode.

    It takes images (B, C, height, width) in [0, 1] that are normalised by each channel's ``mean`` and ``std``, which
    :func:`vitbench.model.weights.read_about` finds in the file. Components of plug-ins have to be registered before.

    Args:
        path: such as ``results/<study>/weights/<trial>.safetensors``, which ``vitbench run --keep-weights`` writes.

    Raises:
        WeightsError: where the file is missing or damaged, or does not say of which model it is.
        UnknownComponent: where it is of a component that is not registered.
    """
    from vitbench.model.weights import load_model

    return load_model(path)


def load(study: str | Path) -> pd.DataFrame:
    """One row for each planned trial of a study: its settings, state, values and machine.

    Args:
        study: folder of the study, e.g. ``results/components``.

    Raises:
        StudyError: where the folder holds no study.
    """
    from vitbench.analysis.frames import trials_frame
    from vitbench.store import StudyFolder

    return trials_frame(StudyFolder.read(Path(study)))
