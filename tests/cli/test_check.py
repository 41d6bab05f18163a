"""A plug-in is held to the contract of components by one command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.runner.runs import here

HEAD = """import torch
from torch import nn
import vitbench
from vitbench.components.attention.batched import Batched
from vitbench.components.mlp.gelu import GELU
"""
GOOD = """
@vitbench.component(slot="mlp", name="cubed", source="a test")
class Cubed(GELU):
    \"\"\"An MLP whose activation is x^3.\"\"\"

    def activate(self, x):
        return x**3


@vitbench.component(slot="attention", name="again", source="a test", exact=True)
class Again(Batched):
    \"\"\"Attention once more.\"\"\"
"""
FLAWS = {
    "mlp.spare has no part in the output": """
@vitbench.component(slot="mlp", name="flawed", source="a test")
class Flawed(nn.Module):
    \"\"\"An MLP with a parameter too many.\"\"\"

    def __init__(self, spec):
        super().__init__()
        self.up, self.spare = nn.Linear(spec.dim, spec.dim), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.up(x)
""",
    "is exact: output: error": """
@vitbench.component(slot="attention", name="flawed", source="a test", exact=True)
class Flawed(Batched):
    \"\"\"Attention that is off by a thousandth.\"\"\"

    def forward(self, x, *rest):
        return 1.001 * super().forward(x, *rest)
""",
    "judges each image alone: the same images give other logits the second time": """
@vitbench.component(slot="mlp", name="flawed", source="a test")
class Flawed(GELU):
    \"\"\"An MLP that draws at random in evaluation, too.\"\"\"

    def activate(self, x):
        return torch.dropout(x, 0.5, True)
""",
    "judges each image alone: an image's logits depend on the others": """
@vitbench.component(slot="mlp", name="flawed", source="a test")
class Flawed(GELU):
    \"\"\"An MLP that takes the batch's mean off.\"\"\"

    def activate(self, x):
        return x - x.mean(0)
""",
    "judges each image alone: writes into the tensor that it is called with": """
@vitbench.component(slot="mlp", name="flawed", source="a test")
class Flawed(nn.Module):
    \"\"\"An MLP that overwrites its input.\"\"\"

    def __init__(self, spec):
        super().__init__()
        self.up = nn.Linear(spec.dim, spec.dim)

    def forward(self, x):
        return self.up(x) if self.training else self.up(x.mul_(2))
""",
    "judges each image alone: makes (3, 1, 32) of (3, 17, 32)": """
@vitbench.component(slot="mlp", name="flawed", source="a test")
class Flawed(nn.Module):
    \"\"\"An MLP that makes one token of all, which the residual adds to each.\"\"\"

    def __init__(self, spec):
        super().__init__()
        self.up = nn.Linear(spec.dim, spec.dim)

    def forward(self, x):
        return self.up(x).mean(1, keepdim=True)
""",
    "judges each image alone: logits are not finite": """
@vitbench.component(slot="mlp", name="flawed", source="a test")
class Flawed(GELU):
    \"\"\"An MLP that overflows in evaluation.\"\"\"

    def activate(self, x):
        return x if self.training else x / 0.0
""",
    "declares source and summary: has no source and no docstring": """
@vitbench.component(slot="attention", name="flawed", source="")
class Flawed(Batched):
    pass
""",
}


def check(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(HEAD + text)
    return here("check", "mine.py", "--device", "cpu", cwd=folder)


def test_components_that_keep_the_contract_are_ok(tmp_path: Path) -> None:
    done = check(tmp_path, GOOD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("mlp cubed") == 5 and done.stdout.count("attention again") == 7, "exact ones are compared"
    assert "wrong" not in done.stdout


@pytest.mark.parametrize("flaw", FLAWS)
def test_what_is_wrong_is_named(tmp_path: Path, flaw: str) -> None:
    done = check(tmp_path, FLAWS[flaw])
    assert done.returncode == 1 and flaw in done.stdout, done.stdout + done.stderr
