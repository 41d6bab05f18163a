"""A suite's tables as a command asks for them: those of a device and of the small form in place, and with --set."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from vitbench.config.recipe import DEVICES, Device
from vitbench.config.suite_errors import SpecError, quote
from vitbench.config.suite_tables import BUDGETS
from vitbench.config.toml import apply, merged, parse
from vitbench.wording import nearest, printable

OF_A_SET = ("path", "subset")
"""Keys of [data] that say what is taken of the images that the file names: other images have other ones."""


def forms(
    path: Path, text: str | None, *, small: bool, device: Device | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A parsed file in the form that is asked for, and in those of its other tables of a device, or of [small]."""
    raw = parse(path, text)
    of_devices, reduced = raw.pop("device", {}), raw.pop("small", None)
    if reduced is None and small:
        raise SpecError([f"{path.name}: small: the suite has no such table, and so no small form"])
    known = isinstance(of_devices, dict)
    if known and (strange := of_devices.keys() - set(DEVICES)):
        hint = nearest(min(strange), DEVICES)
        raise SpecError([f"{path.name}: device.{min(strange)}: unknown key{hint}; known: {', '.join(DEVICES)}"])
    tables = {"small": reduced or {}, **({f"device.{k}": t for k, t in of_devices.items()} if known else {})}
    for name, table in {**tables, **({} if known else {"device": of_devices})}.items():
        if not isinstance(table, dict):
            raise SpecError([f"{path.name}: {name}: must be a table, got {quote(table)}"])
    asked = [f"device.{device}", *(["small"] if small else [])]
    others = [_replaced(raw, table) for name, table in tables.items() if table and name not in asked]
    for name in asked:
        raw = _replaced(raw, tables.get(name, {}))
    if small and isinstance(raw.get("suite"), dict) and isinstance(raw["suite"].get("name"), str):
        raw["suite"] = {**raw["suite"], "name": f"{raw['suite']['name']}-small"}
    return raw, others


def set_values(raw: dict[str, Any], overrides: Sequence[str]) -> list[str]:
    """Set what ``table.key=value`` strings say, and leave out what it takes the place of; what is wrong with them."""
    messages = [
        f'--set "{printable(given)}": is no UTF-8 text, which is all that a suite holds'
        for given in overrides
        if printable(given) != given
    ]
    if isinstance(raw.get("data"), dict) and any(text.partition("=")[0].strip() == "data.name" for text in overrides):
        raw["data"] = {key: value for key, value in raw["data"].items() if key not in OF_A_SET}
    for given in overrides:
        key = given.partition("=")[0].strip()
        if (table := key.partition(".")[0]) in ("device", "small"):
            messages.append(f'--set "{given}": [{table}] is of the file; set the value itself, as in train.epochs=3')
            continue
        if key.startswith("train.seeds."):
            _no_other_seeds(raw)
        wrong = apply(raw, given)
        if key == "train.seeds.at_most" and not wrong:
            _looks_up_to(raw["train"]["seeds"])
        messages += wrong
        if (budget := key.removeprefix("train.")) in BUDGETS:
            _only_budget(raw, {budget})
        if key.startswith("time.") and not wrong:
            _no_other_timing(raw["time"], key.removeprefix("time."))
    return messages


def _replaced(raw: Mapping[str, Any], by: Mapping[str, Any]) -> dict[str, Any]:
    """A parsed file with what one of its tables replaces; a budget there takes the place of any other."""
    tables, train = merged(raw, by), by.get("train")
    if isinstance(train, dict) and (given := {key for key in BUDGETS if key in train}):
        _only_budget(tables, given)
    return tables


def _no_other_timing(time: dict[str, Any], field: str) -> None:
    """Leave out of [time.cpu] and its like what the command line says of all devices."""
    for device in DEVICES:
        if isinstance(table := time.get(device), dict):
            table.pop(field, None)


def _only_budget(raw: dict[str, Any], kept: Collection[str]) -> None:
    """Leave out of [train] the budgets that another one replaces."""
    if isinstance(raw.get("train"), dict):
        raw["train"] = {k: v for k, v in raw["train"].items() if k not in BUDGETS or k in kept}


def _no_other_seeds(raw: Mapping[str, Any]) -> None:
    """Leave seeds, or their number, out of [train], where looks take their place."""
    if isinstance(train := raw.get("train"), dict) and not isinstance(train.get("seeds"), dict):
        train.pop("seeds", None)


def _looks_up_to(seeds: dict[str, Any]) -> None:
    """Let looks that are there end at another number of seeds; those that may have taken place stay."""
    looks, most = seeds.get("looks"), seeds["at_most"]
    if isinstance(looks, tuple) and isinstance(most, int) and all(isinstance(n, int) for n in looks):
        seeds["looks"] = (*(n for n in looks if n < most), most)
