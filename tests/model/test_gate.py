"""The error rule lets no wrong component through: defects that are planted are refused."""

import json
import subprocess
import sys
from pathlib import Path

DEFECT = '''
import torch
from vitbench import component
from vitbench.components.contracts import SelfAttention

@component(slot="attention", name="{name}", exact=True, source="test")
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


PROGRAM = """
import json, pathlib, sys, torch
from vitbench import registry
from vitbench.model.exactness import Incorrect, check
from vitbench.config.model import ModelSpec
said = {}
for plugin in map(pathlib.Path, sys.argv[1:]):
    registry.load_plugin(plugin)
    spec = ModelSpec(attention=plugin.stem, dim=32, depth=1, image_size=16)
    try:
        check(spec, torch.device("cpu"), torch.float32, backward=True)
        said[plugin.stem] = "passed"
    except Incorrect as error:
        said[plugin.stem] = str(error)
print(json.dumps(said))
"""


def test_planted_defects_are_refused(tmp_path: Path) -> None:
    """In a process of its own, since a component stays registered."""
    plugins = []
    for name, (body, _) in DEFECTS.items():
        plugins.append(tmp_path / f"{name.replace(' ', '_')}.py")
        plugins[-1].write_text(DEFECT.format(name=plugins[-1].stem, body=body))
    done = subprocess.run([sys.executable, "-c", PROGRAM, *plugins], capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    for plugin, (name, (_, wrong)) in zip(plugins, DEFECTS.items(), strict=True):
        answer = answers[plugin.stem]
        assert answer == "passed" if wrong is None else answer != "passed" and wrong in answer, (name, answer)
