"""A plug-in is held to the contract of components by one command."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
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
    "has the gradients of finite differences: the gradient of the images, up.weight": """
class Backward(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return gradient * x


@vitbench.component(slot="mlp", name="flawed", source="a test")
class Flawed(GELU):
    \"\"\"An MLP whose backward pass forgets a factor of 2.\"\"\"

    def activate(self, x):
        return Backward.apply(x)
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
    "mine.py:12: RuntimeError: no such width": """
@vitbench.component(slot="mlp", name="flawed", source="a test")
class Flawed(GELU):
    \"\"\"An MLP that raises an error.\"\"\"

    def activate(self, x):
        raise RuntimeError("no such width")
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
    assert done.stdout.count("mlp cubed") == 6 and done.stdout.count("attention again") == 8, "exact ones are compared"
    assert "wrong" not in done.stdout


def test_components_of_the_guide_keep_the_contract(tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs" / "guide" / "components.md").read_text()
    files = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", guide, flags=re.DOTALL))
    assert files.keys() == {"mine.py", "places.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        done = here("check", name, "--device", "cpu", cwd=tmp_path)
        assert done.returncode == 0 and "wrong" not in done.stdout, done.stdout


@pytest.mark.parametrize("flaw", FLAWS)
def test_what_is_wrong_is_named(tmp_path: Path, flaw: str) -> None:
    done = check(tmp_path, FLAWS[flaw])
    assert done.returncode == 1 and flaw in done.stdout, done.stdout + done.stderr
