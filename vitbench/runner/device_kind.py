"""Device kind: the type of device that a name means, without importing torch."""

import platform
from pathlib import Path

from vitbench.config.recipe import Device
from vitbench.store import StudyError

KINDS_OF_DEVICE: dict[str, Device] = {"cpu": "cpu", "cuda": "cuda", "mps": "mps"}

NODES = ("nvidia*", "nvhost*", "nvmap", "kfd", "dxg")
"""Files in /dev of a Linux machine with a GPU: NVIDIA, Jetson (nvhost, nvmap), AMD (kfd), Windows Subsystem (dxg)."""


def device_kind(requested: str) -> Device:
    """Type of a device by its name; for "auto" what the system shows without asking torch. Raises StudyError."""
    if requested == "auto":
        if Path("/proc/driver/nvidia/gpus").is_dir() or Path("/dev/nvidia0").exists():
            return "cuda"
        return "mps" if (platform.system(), platform.machine()) == ("Darwin", "arm64") else "cpu"
    kind = requested.partition(":")[0]
    if kind not in KINDS_OF_DEVICE:
        raise StudyError(f'"{requested}" is no device; allowed: auto, cpu, cuda, cuda:0, …, mps')
    return KINDS_OF_DEVICE[kind]


def is_cpu(requested: str) -> bool:
    """Whether this can only mean the CPU. On Linux a GPU has a file in /dev; asking torch takes three seconds."""
    return requested == "cpu" or (requested == "auto" and shows_no_gpu())


def shows_no_gpu() -> bool:
    """Whether the system says that no GPU is here; where it says nothing, False."""
    return platform.system() == "Linux" and not any(any(Path("/dev").glob(name)) for name in NODES)
