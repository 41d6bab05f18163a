"""vitbench: a benchmark and ablation harness for Vision Transformers in PyTorch."""

from vitbench import stats
from vitbench.api import build, load, load_model
from vitbench.config.model import ModelSpec
from vitbench.interactive import Study, Suite
from vitbench.registry import component

__all__ = ["ModelSpec", "Study", "Suite", "build", "component", "load", "load_model", "stats"]
