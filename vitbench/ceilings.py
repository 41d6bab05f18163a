"""Ceilings: the highest arithmetic and memory rates of a device, measured in each process of a timing."""

import torch

from vitbench.clock import Clock
from vitbench.store import Ceilings

MATRIX = {"cpu": 1024, "cuda": 8192, "mps": 4096}  # Side of the square matrices whose product is timed
COPIED_BYTES = {"cpu": 256 * 2**20, "cuda": 2 * 2**30, "mps": 2**30}
"""Size of the tensor that is copied: several times any cache."""

TRIES = 6


def measure_ceilings(device: torch.device, dtype: torch.dtype) -> Ceilings:
    """Rate of a large matrix product in a dtype and of a large copy: the best of several tries each, for a ceiling."""
    clock = Clock(device, flush=False)
    source = torch.arange(COPIED_BYTES[device.type] // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    copy_ms = min(clock.lap(lambda: target.copy_(source)).device_ms for _ in range(TRIES))
    return Ceilings(
        flops_per_s=measure_products(device, dtype),
        bytes_per_s=2 * source.numel() * source.element_size() / copy_ms * 1000,
    )


def measure_products(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of a large matrix product in a dtype: the best of several tries."""
    clock = Clock(device, flush=False)
    side = MATRIX[device.type]
    generator = torch.Generator(device).manual_seed(0)  # random: on zeros a GPU draws less power and runs faster
    a, b = (torch.randn(side, side, generator=generator, device=device).to(dtype) for _ in range(2))
    product = torch.empty_like(a)
    return 2 * side**3 / min(clock.lap(lambda: torch.mm(a, b, out=product)).device_ms for _ in range(TRIES)) * 1000
