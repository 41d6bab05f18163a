"""Extras: what some exports take and vitbench alone does not bring. Imports nothing of it, nor anything slow."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence

from vitbench.errors import UserError

EXTRAS: Mapping[str, Sequence[str]] = {
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "explore": ("plotly",),
}
"""Extra of vitbench → what it takes."""


class MissingExtra(UserError, RuntimeError):
    """What an export takes is not installed. The message says how it is."""


def require(name: str) -> None:
    """Raise MissingExtra where what an export takes is not installed; of exports that take nothing, never."""
    missing = [module for module in EXTRAS.get(name, ()) if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingExtra(
            f"--export {name} takes {', '.join(missing)}, not installed here: pip install 'vitbench[{name}]' (in a "
            f"checkout: pip install '.[{name}]')"
        )
