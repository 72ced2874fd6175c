"""Files that are whole or not there, and locks that end with the process that holds them.

What is notable:
- a file is written beside its place, synced to the disk, and renamed: a reader sees the old one or the new one;
- what a killed process leaves behind has a name of its own, so that the next start can remove it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL = ".saving-"  # how the name of what is not complete begins


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Lend a file beside ``path`` to write to; it takes the place of ``path`` once the block has ended without error.

    Raises:
        OSError: if it cannot be written; what was at ``path`` before is untouched.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{PARTIAL}{shortened(path.name, 200)}-")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        sync(temporary)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes files that only their owner can read
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync(path.parent)


def shortened(name: str, at_most: int) -> str:
    """The beginning of a name, at most so many bytes of it, which is what file systems count."""
    return os.fsencode(name)[:at_most].decode("utf-8", "ignore")


def sync(path: Path) -> None:
    """Return when the file or folder is on the disk; on Windows at once, which opens no folder to sync it."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a whole file at once, in place of what was there."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def reason(error: BaseException) -> str:
    """Why something could not be read or written, in one line."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    first = str(error).strip().splitlines()
    return (isinstance(error, OSError) and error.strerror) or (first[0] if first else type(error).__name__)


def remove_partial(folder: Path) -> None:
    """Remove what processes that were killed while they saved have left in ``folder``."""
    for path in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the one lock that there is on a file, which is made if it is missing, for the length of the block.

    Args:
        path: the file; what it holds is not touched.
        wait: for another process that holds it; without, the block is entered either way.

    Yields:
        Whether this process holds the lock.
    """
    import fcntl  # there is none on Windows, where only comparisons and runs in folders need it

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
