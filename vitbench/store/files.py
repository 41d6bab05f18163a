"""Writing files that are whole or absent."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a file so that a reader sees it whole or not at all, and a power cut does not undo it."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path
