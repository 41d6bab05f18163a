"""Doctor: what this machine can run, and why not. Imports that may fail are tried in a process of their own."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vitbench import registry
from vitbench.data import catalog
from vitbench.environment import cpu_model, versions

TRIAL_SECONDS = 120
FOLDERS = {
    "cifar10": "cifar-10-batches-py",
    "cifar100": "cifar-100-python",
    "mnist": "MNIST",
    "fashion_mnist": "FashionMNIST",
}
"""Published set → the folder that torchvision unpacks it to."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    level: Literal["ok", "note", "bad"]
    text: str


def examine() -> Iterator[Finding]:
    """Findings, most basic first."""
    yield Finding(
        "python",
        "ok",
        f"{platform.python_version()} on {platform.system()} {platform.machine()}, {cpu_model()}",
    )
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _torch,
        _torchvision,
        _gpu,
        _compiler,
        _components,
        _data,
    )
    for check in checks:
        yield from check()


def try_python(code: str) -> tuple[bool, str]:
    """(whether it ran, its output or the last line of its error) of some Python in a fresh process."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"still running after {TRIAL_SECONDS} s"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else f"exit status {done.returncode}"


def torchvision_finding(torch_version: str, works: bool, output: str) -> Finding:
    """What an import of torchvision beside this torch says of the two."""
    if works:
        return Finding("torchvision", "ok", output)
    if "torchvision::nms" in output or "undefined symbol" in output:
        return Finding(
            "torchvision", "bad",
            f"does not fit torch {torch_version} ({output}): the two come from different builds, most often a CPU-only "
            f"torch beside the package index's torchvision; install both from one index. Models, image folders and "
            f"synthetic images work without it; cifar10, cifar100, mnist and fashion_mnist do not",
        )  # fmt: skip
    return Finding("torchvision", "bad", f"does not import: {output}")


def _torch() -> Iterator[Finding]:
    works, output = try_python("import torch; print(torch.__version__, torch.get_num_threads())")
    if not works:
        yield Finding("torch", "bad", f"does not import: {output}")
        return
    version, threads = output.split()
    yield Finding("torch", "ok", f"{version}, {threads} CPU threads")


def _torchvision() -> Iterator[Finding]:
    yield torchvision_finding(
        versions().get("torch", "?"), *try_python("import torchvision; print(torchvision.__version__)")
    )


def _gpu() -> Iterator[Finding]:
    code = (
        "import torch; n = torch.cuda.device_count(); "
        "print('; '.join(f'cuda:{i} {torch.cuda.get_device_name(i)}, bfloat16 '"
        " + ('yes' if torch.cuda.is_bf16_supported(including_emulation=False) else 'no') for i in range(n))"
        " or ('mps' if torch.backends.mps.is_available() else f'none (torch built for CUDA {torch.version.cuda})'))"
    )
    works, output = try_python(code)
    level: Literal["ok", "note"] = "ok" if works and not output.startswith("none") else "note"
    yield Finding("accelerator", level, output)


def _compiler() -> Iterator[Finding]:
    found = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    text = found or 'none: torch.compile on the CPU and attention "flex" there need one'
    yield Finding("C++ compiler", "ok" if found else "note", text)


def _components() -> Iterator[Finding]:
    import importlib.util

    for slot in registry.slots():
        for name in registry.names(slot):
            missing = [p for p in registry.facts(slot, name).packages if importlib.util.find_spec(p) is None]
            if missing:
                yield Finding(f'{slot} "{name}"', "note", f"needs {', '.join(missing)}, not installed")


def _data() -> Iterator[Finding]:
    root = catalog.root()
    there = [name for name, folder in FOLDERS.items() if (root / folder).is_dir()]
    text = f"{root.resolve()} holds {', '.join(there) or 'no published set'}"
    yield Finding("data", "ok" if there else "note", text if root.is_dir() else f"{root.resolve()} does not exist yet")
    yield Finding("free disk", "ok", f"{shutil.disk_usage(Path.cwd()).free / 2**30:.0f} GiB")
