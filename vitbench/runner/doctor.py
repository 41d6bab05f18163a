"""Doctor: what this machine can run, and why not. Imports that may fail are tried in a process of their own."""

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vitbench import registry
from vitbench.data import catalog
from vitbench.environment import cpu_model

TRIAL_SECONDS = 120
LEAST_GIB = 5
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
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {cpu_model()}"
    yield Finding("python", "ok", system)
    yield from _torch()
    yield from _compiler()
    yield from _components()
    yield from _data()


PROBE = """
import json, sys
def tell(subject, probe):
    try:
        print(json.dumps([subject, True, probe()]), flush=True)
    except BaseException as error:
        print(json.dumps([subject, False, f"{type(error).__name__}: {error}".strip().splitlines()[-1]]), flush=True)
def torch_itself():
    import torch
    return f"{torch.__version__} {torch.get_num_threads()}"
def accelerator():
    import torch
    gpus = [f"cuda:{i} {torch.cuda.get_device_name(i)}, bfloat16 "
            + ("yes" if torch.cuda.is_bf16_supported(including_emulation=False) else "no")
            for i in range(torch.cuda.device_count())]
    return "; ".join(gpus) or ("mps" if torch.backends.mps.is_available() else f"no {torch.version.cuda}")
def torchvision():
    import importlib.metadata, importlib.util, pathlib, torch
    if (package := importlib.util.find_spec("torchvision")) is None:
        raise ModuleNotFoundError("No module named 'torchvision'")
    for library in pathlib.Path(package.origin).parent.glob("_C*.so"):
        torch.ops.load_library(library)
    torch.ops.torchvision.nms
    return importlib.metadata.version("torchvision")
for subject, probe in (("torch", torch_itself), ("accelerator", accelerator), ("torchvision", torchvision)):
    tell(subject, probe)
"""
"""Imports that may fail, or end their process: one of its own, which says how far it came.

Of torchvision its operators are loaded, which need the torch that they were built with. To import it all takes as long
as torch itself, for the compiler that its models import.
"""


def probed() -> dict[str, tuple[bool, str]]:
    """Subject → (whether it could be asked, the answer or the last line of its error)."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROBE], capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False
        )
        output, why = done.stdout, f"ended with exit status {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        why = f"still running after {TRIAL_SECONDS} s"
    answers = {subject: (works, text) for subject, works, text in map(json.loads, output.splitlines())}
    return {subject: answers.get(subject, (False, why)) for subject in ("torch", "accelerator", "torchvision")}


def torchvision_finding(torch_version: str, works: bool, output: str) -> Finding:
    """Finding about the two packages, by loading torchvision's operators into this torch."""
    if works:
        return Finding("torchvision", "ok", output)
    if not output.startswith("ModuleNotFoundError"):
        return Finding(
            "torchvision", "bad",
            f"does not fit torch {torch_version} ({output}): the two come from different builds, most often a CPU-only "
            f"torch beside the package index's torchvision; install both from one index. Models, image folders and "
            f"synthetic images work without it; cifar10, cifar100, mnist and fashion_mnist do not",
        )  # fmt: skip
    return Finding("torchvision", "bad", f"does not import ({output}): pip install torchvision, in this environment")


def _torch() -> Iterator[Finding]:
    answers = probed()
    works, output = answers["torch"]
    if not works:
        yield Finding("torch", "bad", f"does not import ({output}): pip install torch torchvision, in this environment")
        return
    version, threads = output.split()
    yield Finding("torch", "ok", f"{version}, {threads} CPU threads")
    yield torchvision_finding(version, *answers["torchvision"])
    works, output = answers["accelerator"]
    first, _, cuda = output.partition(" ")
    if works and first != "no":
        yield Finding("accelerator", "ok", output)
    elif works:
        yield Finding("accelerator", "note", f"none (torch built for CUDA {cuda}): suites run on the CPU, best in "
                      "their --small forms; if there is a GPU, nvidia-smi says whether its driver works")  # fmt: skip
    else:
        yield Finding("accelerator", "bad", f"cannot be asked ({output}): check the driver with nvidia-smi")


def _compiler() -> Iterator[Finding]:
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    text = compiler or 'none: torch.compile on the CPU and attention "flex" there need one, such as apt install g++'
    yield Finding("C++ compiler", "ok" if compiler else "note", text)


def _components() -> Iterator[Finding]:
    import importlib.util

    for slot in registry.slots():
        for name in registry.names(slot):
            missing = [p for p in registry.facts(slot, name).packages if importlib.util.find_spec(p) is None]
            if missing:
                yield Finding(f'{slot} "{name}"', "note", f"not installed: pip install {' '.join(missing)}")


def _data() -> Iterator[Finding]:
    root = catalog.root()
    there = [name for name, folder in FOLDERS.items() if (root / folder).is_dir()]
    how = "vitbench data cifar10 downloads CIFAR-10, and VITBENCH_DATA names another folder"
    text = f"{root.resolve()} holds {', '.join(there)}" if there else f"no published set in {root.resolve()}: {how}"
    yield Finding("data", "ok" if there else "note", text)
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    little = "" if free >= LEAST_GIB else ": records are small, but data sets and kept weights may not fit"
    yield Finding("free disk", "note" if little else "ok", f"{free:.0f} GiB{little}")
