"""One writer at a time for a model file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from outrider.models.progress import Progress


@contextmanager
def locked(file: Path, progress: Progress) -> Iterator[None]:
    """Hold the right to write `file` against other processes and threads; waits for whoever has it.

    The lock is the operating system's, so it is free again when its holder dies.

    Raises:
        OSError: the directory cannot be made or written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(file.with_name(f".{file.name}.lock"), thread_local=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        progress.note("another process is pulling it; waiting")
        lock.acquire(poll_interval=0.2)
    try:
        yield
    finally:
        lock.release()
