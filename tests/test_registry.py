"""Names, facts and plug-ins."""

import importlib.util
import inspect
from pathlib import Path

import pytest

from tests.runner.runs import plugins_apart
from tests.test_bad_input_runs import PLUGIN
from vitbench import registry


def test_unknown_names_give_the_nearest_and_the_known() -> None:
    with pytest.raises(
        registry.UnknownComponent, match='did you mean "sdpa"\\?; known: batched, cross_covariance, depthwise'
    ):
        registry.facts("attention", "spda")
    with pytest.raises(registry.UnknownComponent, match='"atention" is not a slot; did you mean "attention"'):
        registry.names("atention")


def test_a_plugin_joins_its_slot(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN.format(name="sine"))
    before = set(registry.names("mlp"))
    with plugins_apart():
        for _ in range(2):  # a second time does nothing
            registry.load_plugin(plugin)
        assert set(registry.names("mlp")) == before | {"sine"}
        assert (registry.load("mlp", "sine").__name__, registry.facts("mlp", "sine").summary) == ("Mine", "Mine")
    assert set(registry.names("mlp")) == before


def test_a_plugin_of_windows_editor_is_a_module_like_others(tmp_path: Path) -> None:
    """Notepad begins its UTF-8 with a mark of byte order."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN.format(name="sine"), encoding="utf-8-sig")
    with plugins_apart():
        registry.load_plugin(plugin)
        sine = registry.load("mlp", "sine")
        spec = importlib.util.find_spec(sine.__module__)
        assert spec is not None and spec.origin == inspect.getfile(sine) == str(plugin)
