"""Completion: the words that a shell offers for what is typed so far. No torch; plug-ins and suites are not read."""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from vitbench import registry
from vitbench.config.presets import PRESETS
from vitbench.config.shipped import names
from vitbench.config.suite_tables import TABLES
from vitbench.data import catalog

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _of(words: Callable[[], Iterable[str]], *, or_file: bool = False) -> Completion:
    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        items = [CompletionItem(word) for word in words() if word.startswith(begun)]
        return [*items, CompletionItem(begun, type="file")] if or_file else items

    return complete


def _settings() -> list[str]:
    """``table.key=`` for every key of a suite, and every component of a slot."""
    keys = [f"{table}.{key}=" for table, model in TABLES.items() for key in model.model_fields]
    return keys + [f"model.{slot}={name}" for slot in registry.slots() for name in registry.names(slot)]


suites = _of(names, or_file=True)
models = _of(lambda: [*PRESETS, *names()], or_file=True)
slots = _of(registry.slots)
settings = _of(_settings)
published = _of(lambda: catalog.PUBLISHED)
