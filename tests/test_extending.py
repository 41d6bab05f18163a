"""A component that is added as one file: listed, contract-tested and run without touching another file."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.small import SUITE

EXACT = '''"""Attention by einsum."""

import torch

from vitbench.components.contracts import SelfAttention
from vitbench.registry import component


@component(exact=True, offers=("rotary",), source="a test")
class Einsum(SelfAttention):
    """Written out in index notation."""

    def attend(self, q, k, v):
        scores = torch.einsum("bhnk,bhmk->bhnm", q, k) * self.scale
        return torch.einsum("bhnm,bhmk->bhnk", scores.softmax(-1), v){mistake}
'''


def checkout(folder: Path) -> Path:
    """A copy of the package and of its tests."""
    for name in ("vitbench", "tests", "ablations"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=300, check=False)  # fmt: skip


def test_one_file_is_enough(tmp_path: Path) -> None:
    folder = checkout(tmp_path)
    components = folder / "vitbench" / "components" / "attention"
    (components / "einsum.py").write_text(EXACT.format(mistake=""))
    (components / "mistaken.py").write_text(EXACT.format(mistake=" * 1.01"))
    guide = (REPOSITORY / "docs" / "guide" / "components.md").read_text()
    (cosine,) = re.findall(r"```python\n# (vitbench/components/\S+)\n(.*?)```", guide, flags=re.DOTALL)
    (folder / cosine[0]).write_text(cosine[1])

    listed = python(folder, "-m", "vitbench", "components", "attention").stdout
    assert re.search(r"^einsum +exact +cpu cuda mps", listed, re.MULTILINE) and "cosine" in listed
    tested = python(
        folder, "-m", "pytest", "tests/components", "-k", "einsum or cosine or mistaken", "-p", "no:cacheprovider"
    )
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", tested.stdout, re.MULTILINE)
    assert failed and all("mistaken" in name for name in failed), tested.stdout[-3000:]
    assert any("error_rule" in name for name in failed), "the contract tests let a wrong component through"
    assert int(re.findall(r"(\d+) passed", tested.stdout)[0]) > 12
    (folder / "small.toml").write_text(SUITE + '[axes]\nattention = ["sdpa", "einsum", "cosine"]\n')
    run = python(folder, "-m", "vitbench", "run", "small.toml", "--device", "cpu")
    assert run.returncode == 0 and "3 trials: 3 ok" in run.stdout, run.stdout + run.stderr
