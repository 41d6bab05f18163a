"""vitbench: a benchmark and ablation harness for Vision Transformers in PyTorch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitbench import stats
    from vitbench.api import build, load, load_model
    from vitbench.config.model import ModelSpec
    from vitbench.interactive import Study, Suite
    from vitbench.registry import component

__all__ = ["ModelSpec", "Study", "Suite", "build", "component", "load", "load_model", "stats"]

_HOMES = {
    "ModelSpec": "config.model", "Study": "interactive", "Suite": "interactive", "build": "api",
    "component": "registry", "load": "api", "load_model": "api",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is asked for, and no more: a command takes a fraction of a second, most of it for its imports."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"vitbench.{_HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"vitbench.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """For completion, where nothing is imported yet."""
    return sorted({*globals(), *__all__})
