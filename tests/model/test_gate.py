"""The error rule lets no wrong component through: defects that are planted are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

DEFECT = '''
import torch
from vitbench import component
from vitbench.components.contracts import SelfAttention

@component(slot="attention", name="defect", exact=True, source="test")
class Defect(SelfAttention):
    """Planted."""
    def attend(self, q, k, v):
        {body}
'''
DEFECTS = {
    "right": ("return (q @ k.mT * self.scale).softmax(-1) @ v", None),
    "zeros": ("return v * 0", "output"),
    "wrong scale": ("return (q @ k.mT / (2 * self.head_width) ** 0.5).softmax(-1) @ v", "output"),
    "ten roundings": ("return (q @ k.mT * self.scale).softmax(-1) @ v * (1 + 10 * 2**-23)", "output"),
    "wrong gradient": (
        "p = (q @ k.mT * self.scale).softmax(-1); return p @ v + (p.detach() - p) @ v.detach() * 0.5",
        "gradient of qkv.weight",
    ),
    "missing gradient": ("return ((q @ k.mT * self.scale).softmax(-1) @ v).detach()", "gradient of qkv.weight"),
    "NaN in one row": (
        "o = (q @ k.mT * self.scale).softmax(-1) @ v; o = o.clone(); o[0, 0, 0] = float('nan'); return o",
        "output",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_refused(tmp_path: Path, name: str) -> None:
    body, expected = DEFECTS[name]
    plugin = tmp_path / "defect.py"
    plugin.write_text(DEFECT.format(body=body))
    program = f"""
import pathlib, torch
from vitbench import registry
from vitbench.model.exactness import Incorrect, check
from vitbench.config.model import ModelSpec
registry.load_plugin(pathlib.Path({str(plugin)!r}))
spec = ModelSpec(attention="defect", dim=32, depth=1, image_size=16)
try:
    check(spec, torch.device("cpu"), torch.float32, backward=True)
    print("passed")
except Incorrect as error:
    print("incorrect:", error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    if expected is None:
        assert done.stdout == "passed\n"
    else:
        assert done.stdout.startswith("incorrect: ") and expected in done.stdout, done.stdout + done.stderr
