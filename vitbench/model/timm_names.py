"""Names of timm's pretrained weights: whether they exist, and their file.

Imports no torch, but where a name is looked up, which timm does.
"""

import contextlib
import functools
from pathlib import Path

from vitbench.data import catalog
from vitbench.wording import nearest


def path_of(name: str) -> Path:
    """Where the weights of a name lie once they have been downloaded, or put there."""
    return catalog.root() / "weights" / f"{name}.safetensors"


def instead_of(name: str) -> str:
    """Advice for a user who has the weights, or can get them elsewhere."""
    return f"or put a file of its weights at {path_of(name)}"


@functools.cache
def heads_of(name: str) -> int | None:
    """Number of heads of timm's model of this name; None if timm is not installed or has no such ViT."""
    try:
        import timm
        import torch
    except ImportError:
        return None
    if not timm.is_model_pretrained(name):
        return None
    first = None
    with torch.device("meta"), contextlib.suppress(RuntimeError, NotImplementedError):  # of timm 1.0.20 and before
        first = next(iter(getattr(timm.create_model(name), "blocks", ())), None)
    heads: int | None = getattr(getattr(first, "attn", None), "num_heads", None)
    return heads


def problem(name: str, *, planning: bool = False) -> str | None:
    """Why the weights of a name are unavailable, without trying to download them; None if nothing speaks against it.

    For a plan alone (``planning``) timm itself may be missing: nothing is known of the name then.
    """
    if path_of(name).exists():
        return None
    try:
        import timm
        from timm.models import get_deprecated_models
    except ImportError:
        return None if planning else f"timm is not installed: pip install timm, {instead_of(name)}"
    architecture = name.partition(".")[0]
    if name in get_deprecated_models():
        return f'timm calls it "{get_deprecated_models()[name]}" now'
    if not timm.is_model(architecture):
        return f"timm has no such model{nearest(architecture, timm.list_models())}; name another, {instead_of(name)}"
    if not timm.is_model_pretrained(name):
        known = [each for each in timm.list_pretrained(f"{architecture}*") if each.partition(".")[0] == architecture]
        return f"timm has no such weights{nearest(name, known)}; known: {', '.join(known) or 'none'}"
    return None
