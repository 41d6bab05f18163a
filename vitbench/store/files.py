"""Files that are written whole or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from vitbench.wording import encoded

NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""Error numbers of a file system without hard links."""

STRAY_SECONDS = 300.0
"""Age at which a temporary file is taken for one that its writer left behind: writing takes far less."""


@contextlib.contextmanager
def opened(path: Path, most: int) -> Iterator[BufferedReader]:
    """A file of a study, open for reading: whatever lies in its place, nothing is waited for.

    Args:
        path: of the file.
        most: bytes that such a file can have.

    Raises:
        OSError: where it cannot be opened, is a folder, a pipe or a device, or has more bytes; ``strerror`` says which.
    """
    # Without O_NONBLOCK a pipe is waited for until somebody writes into it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a file", str(path))
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"{status.st_size:,} bytes, and such a file has at most {most:,}", str(path))
        yield stream


def content(path: Path, most: int) -> bytes:
    """The bytes of a file of a study; raises the errors of :func:`opened`."""
    with opened(path, most) as stream:
        return stream.read(most)


def digest(path: Path) -> str:
    """SHA-256 of a file of any size, in hexadecimal digits; raises the errors of :func:`opened`."""
    with opened(path, sys.maxsize) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def handle(stream: BinaryIO) -> str:
    """A path to a file that is open, for readers that take nothing but a path, and that in UTF-8."""
    return f"/dev/fd/{stream.fileno()}"


def write_atomically(path: Path, content: str | bytes, *, durable: bool = True) -> Path:
    """Write a file so that a reader sees it whole or not at all.

    Args:
        path: where to; what is there is replaced.
        content: of the file.
        durable: whether a power cut must not undo it.
    """
    with _written(path, content, durable=durable) as temporary:
        temporary.replace(path)
    if durable:
        sync_folder(path.parent)
    return path


def publish(path: Path, content: str | bytes, *, durable: bool = True) -> Path:
    """Like :func:`write_atomically`, for one writer of many: a file that is there is never replaced.

    Raises:
        FileExistsError: where another writer was first.
    """
    with _written(path, content, durable=durable) as temporary:
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            # The name is taken first, and for a moment the file is empty.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            temporary.replace(path)
    if durable:
        sync_folder(path.parent)
    return path


@contextlib.contextmanager
def _written(path: Path, content: str | bytes, *, durable: bool) -> Iterator[Path]:
    """A temporary file beside ``path`` that holds the content, removed at the end if it is still there."""
    data = encoded(content) if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    with temporary.open("xb") as stream:
        try:
            lock(stream.fileno())
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
            yield temporary
        finally:
            with contextlib.suppress(OSError):  # its folder is gone, or cannot be written any more
                temporary.unlink()


def write_in_place(path: Path, text: str) -> None:
    """Write a file of the user's own choice: its mode, links to it and pipes stay, and its content on a full disk."""
    there, before = os.path.lexists(path), path.read_bytes() if path.is_file() else None
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError:
        with contextlib.suppress(OSError):  # what was there has room again
            if before is not None:
                path.write_bytes(before)
            elif not there:
                path.unlink()
        raise


def lock(handle: int) -> bool | None:
    """Take the lock of an open file or folder, whose owner has it as long as it lives; False where another has it.

    None on a file system without locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_system_now(folder: Path) -> float:
    """The time by the clock that stamps files in a folder: on a network file system not this machine's.

    Raises:
        OSError: where the folder cannot be written.
    """
    probe = folder / f".now.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def sweep(folder: Path) -> int:
    """Remove the temporary files that killed writers left in a folder. Returns their number."""
    now = file_system_now(folder)
    count = 0
    for stray in folder.glob(".*.tmp"):
        if not stray.is_file():
            continue
        with contextlib.suppress(OSError), stray.open("rb") as stream:  # another driver sweeps too
            # The lock, since an age may be wrong where a clock was set.
            if now - stray.stat().st_mtime > STRAY_SECONDS and lock(stream.fileno()) is not False:
                stray.unlink()
                count += 1
    return count
