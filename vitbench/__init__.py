"""vitbench: a benchmark and ablation harness for Vision Transformers in PyTorch."""

from vitbench import stats
from vitbench.api import build, load, load_model
from vitbench.config.model import ModelSpec
from vitbench.registry import component

__all__ = ["ModelSpec", "build", "component", "load", "load_model", "stats"]
