"""The machine, the software and the code that made a record. No host name, no user name, no environment variables."""

import contextlib
import functools
import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from vitbench.config.base import Strict

VERSION = "0.1.0"
"""Version of vitbench; pyproject.toml reads it here, so that a checkout that is not installed knows it too."""

PACKAGES = (
    "torch", "torchvision", "timm", "triton", "numpy", "einops", "onnxruntime", "openvino", "torchao", "torch_tensorrt",
    "flash_attn", "xformers",
)  # fmt: skip
ROOT = Path(__file__).parent
CPU_FILE = Path("/proc/cpuinfo")
READERS = frozenset({"report", "analysis", "cli"})
"""Parts of vitbench that read records: they do not change what is measured."""


class Environment(Strict):
    """The machine, software and code that a number depends on beside its trial."""

    cpu: str
    cpu_cores: int
    memory_gib: float
    device: str | None = Field(None, description='where the trial ran, with its index: "cpu", "cuda:1"')
    device_name: str
    driver: str | None = None
    cuda: str | None = None
    platform: str
    python: str
    packages: dict[str, str]
    threads: int
    spins: str | None = Field(None, description="GOMP_SPINCOUNT, for which threads wait awake; None: the default")
    load_average: float | None = None
    vitbench: str
    code: str
    plugins: dict[str, str] = Field(
        default_factory=dict, description="components of the trial that come from plug-ins → digest of the plug-in"
    )
    commit: str | None = None
    dirty: bool | None = None

    @property
    def machine(self) -> str:
        """Description by which a report distinguishes machines."""
        cpu = f"{self.cpu}, {self.cpu_cores} cores"
        return cpu if self.device_name == self.cpu else f"{self.device_name} ({cpu})"

    @property
    def software(self) -> str:
        """Description by which a report distinguishes states of the software."""
        return f"torch {self.packages.get('torch', '?')}, vitbench {self.vitbench} code {self.code}"


def fingerprint(device: str, threads: int) -> Environment:
    """The environment of a trial on a device, such as "cpu" or "cuda:0", with so many CPU threads."""
    import psutil

    cpu = cpu_model()
    name, driver, cuda = _accelerator(device)
    commit, dirty = source_commit()
    return Environment(
        cpu=cpu,
        cpu_cores=os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        device=device,
        device_name=name or cpu,
        driver=driver,
        cuda=cuda,
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        packages=versions(),
        threads=threads,
        spins=os.environ.get("GOMP_SPINCOUNT"),
        load_average=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        vitbench=VERSION,
        code=code_digest(),
        commit=commit,
        dirty=dirty,
    )


@functools.cache
def cpu_model() -> str:
    """Marketing name of the processor, as far as the system tells."""
    return _of_cpu("model name") or platform.processor() or platform.machine()


def has_bfloat16() -> bool:
    """Whether the processor computes in bfloat16; True where the system does not tell."""
    flags = _of_cpu("flags") or _of_cpu("Features")
    return not flags or not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(flags.split())


def _of_cpu(key: str) -> str:
    """Value of a key in the first processor's entry; empty where there is none."""
    lines = CPU_FILE.read_text().splitlines() if CPU_FILE.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the installed packages that decide a result; what is absent is left out."""
    from importlib import metadata  # takes a tenth of the time in which a command starts

    installed = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


@functools.cache
def code_digest() -> str:
    """Hash of vitbench's own source, as far as it makes results: tells states of the code apart without git, too."""
    whole = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT)
        if inside.parts[0] not in READERS:
            whole.update(inside.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:12]


def code_with(code: str, plugins: Mapping[str, str]) -> str:
    """Hash of all the code that makes a result: vitbench's, and the plug-ins' where there are some."""
    return hashlib.sha256(f"{code} {sorted(plugins.items())}".encode()).hexdigest()[:12] if plugins else code


@functools.cache
def source_commit() -> tuple[str | None, bool | None]:
    """(commit, whether tracked files differ from it) of vitbench's checkout; None where it is not one."""
    if not (ROOT.parent / ".git").exists():
        return None, None
    import subprocess

    git = ["git", "-C", str(ROOT.parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True)
        status = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True,
                                timeout=30, check=True)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None, None
    return commit.stdout.strip(), bool(status.stdout.strip())


def _accelerator(device: str) -> tuple[str | None, str | None, str | None]:
    """(name, driver, CUDA version) of a device; Nones for the CPU."""
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return None, None, None
    if kind == "mps":
        return f"{cpu_model()} GPU", None, None
    import torch

    return torch.cuda.get_device_name(int(index or 0)), _driver(), torch.version.cuda


def _driver() -> str | None:
    """Version of NVIDIA's driver; None, which is recorded as unknown, where NVML does not tell."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
