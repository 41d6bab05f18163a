"""Names, facts and plug-ins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vitbench import registry

PLUGIN = '''
from vitbench import component
from vitbench.components.contracts import MLP

@component(slot="mlp", name="{name}", source="test")
class Mine(MLP):
    """Mine."""
    def activate(self, hidden):
        return hidden.sin()
'''


def in_fresh_process(plugin: Path, code: str = "") -> tuple[int, str]:
    """Plug-ins stay loaded: each is tried in a process of its own."""
    program = f"""
import pathlib
from vitbench import registry
try:
    registry.load_plugin(pathlib.Path({str(plugin)!r}))
    registry.load_plugin(pathlib.Path({str(plugin)!r}))  # a second time does nothing
    {code or "pass"}
except registry.PluginError as error:
    print("PluginError:", error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_facts_are_read_without_importing() -> None:
    code = (
        "import sys; from vitbench import registry as r; r.facts('attention', 'triton'); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    assert registry.facts("attention", "triton").devices == ("cuda",)


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
    code = "print(registry.names('mlp'), registry.load('mlp', 'sine').__name__, registry.facts('mlp', 'sine').summary)"
    assert in_fresh_process(plugin, code) == (0, f"{(*sorted((*registry.names('mlp'), 'sine')),)} Mine Mine\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "no such file"),
        ("x = 1\n", "registers no component"),
        ("def broken(:\n", "mine.py:1: "),
        (PLUGIN.format(name="gelu"), 'mine.py:5: mlp "gelu" exists already'),
        (PLUGIN.format(name="../x"), 'mine.py:5: "../x" is not a name'),
        (PLUGIN.format(name="a") + "raise KeyError('oh')\n", "mine.py:10: KeyError: 'oh'"),
        (
            PLUGIN.format(name="a").replace('source="test"', 'sauce="test"'),
            'unknown fact "sauce"; did you mean "source"?',
        ),
        (PLUGIN.format(name="a").replace('"test"', "str(1)"), "source must be a literal"),
        (PLUGIN.format(name="a").replace('slot="mlp", ', ""), "must give slot=... and name=..."),
        (PLUGIN.format(name="a").replace('"mlp"', '"mpl"'), '"mpl" is not a slot; did you mean "mlp"?'),
        (PLUGIN.format(name="a").replace('source="test"', 'source="t", devices=("gpu",)'), "['gpu'] not among"),
        (PLUGIN.format(name="a").replace('source="test"', 'source="t", options={"b": 1.0}'), "1.0 is no option: give"),
    ],
)
def test_a_bad_plugin_is_named_with_its_line(tmp_path: Path, text: str | None, expected: str) -> None:
    plugin = tmp_path / "mine.py"
    if text is not None:
        plugin.write_text(text)
    status, output = in_fresh_process(plugin, "print(registry.names('mlp'))")
    assert status == 0 and "PluginError: " in output and expected in output, output
    assert "Traceback" not in output
