"""``[tune]``: nuisance axes, tuned for each cell separately."""

from collections.abc import Collection, Mapping
from typing import Any

from vitbench.config.recipe import TrainSpec, TrainTable
from vitbench.config.suite import Tune, as_text
from vitbench.config.suite_errors import quote
from vitbench.config.suite_tables import BUDGETS, OF_ALL_CELLS, SuiteTables
from vitbench.config.toml import leaves
from vitbench.wording import nearest


def read_tune(tables: SuiteTables, base: Mapping[str, Any], studied: Collection[str]) -> Tune | None:
    """The nuisance axes: ``[tune]`` holds arrays of values of fields of [train], and ``seeds``."""
    raw = tables.raw.get("tune")
    if raw is None:
        return None
    if not isinstance(raw, dict):
        tables.complain("tune", f"must be a table, got {quote(raw)}")
        return None
    axes = {}
    for path, values in leaves({k: v for k, v in raw.items() if k != "seeds"}):
        if problem := _problem(path, values, studied):
            tables.complain(f"tune.{path}", problem)
        else:
            for value in values:
                tables.replaced(base, {path: value}, f"tune.{path}")
            axes[path] = values
    if not axes:
        tables.complain("tune", "names nothing to tune, e.g. train.learning_rate = [3e-4, 1e-3]")
    _tunable(tables, base["train"])
    return tables.validated({"axes": axes, **({"seeds": raw["seeds"]} if "seeds" in raw else {})}, Tune, "tune")


def _problem(path: str, values: Any, studied: Collection[str]) -> str:
    """Why these values of a field cannot be tuned; empty where they can."""
    known = [f"train.{name}" for name in TrainSpec.model_fields if name not in BUDGETS]
    if path in {f"train.{name}" for name in (*BUDGETS, *OF_ALL_CELLS)}:
        return "is the same for all settings that are compared: it is not tuned"
    meant = [name for name in known if path not in known and (path.endswith(f".{name}") or name == f"train.{path}")]
    if meant:
        return f"is no field of the recipe: write {meant[0]} = [...] in [tune] itself"
    if path not in known:
        return f"is no field of the recipe{nearest(path, known)}; e.g. {known[3]}"
    if path in studied:
        return "is under study: an axis or a variant sets it"
    if not isinstance(values, tuple) or not values:
        return f"must be an array of values, got {quote(values)}"
    return f"has a value twice: {quote(values)}" if len({as_text(each) for each in values}) < len(values) else ""


def _tunable(tables: SuiteTables, train: TrainTable | None) -> None:
    """Complain where there is nothing to tune, or where seeds stop early, too."""
    if "train" not in tables.raw:
        tables.complain("tune", "there is no [train] table to tune")
    elif train is not None and train.looks:
        why = "no suite both looks and tunes: give train.seeds as a number, or leave out [tune]"
        tables.complain("train.seeds", why)
