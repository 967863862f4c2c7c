"""A model file that is still arriving: bytes land out of order, from several threads, and survive an interruption.

`FILE.partial` holds the bytes, `FILE.partial.json` says which of them have arrived and which file they belong to. Only a
whole file with the right sum is moved to its final name.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from outrider.models.ranges import Range, covered, missing, with_range, without_range
from outrider.models.store import BLOCK_BYTES, sha256_of

SAVE_INTERVAL_S: Final = 1.0


class PartialFile:
    """The bytes of one file that have arrived so far. Safe to write from several threads; one process at a time.

    Args:
        final: where the finished file goes; the partial one lies beside it.
        identity: names the exact content, so that the rest of another version is never added to what is there.
        n_bytes: length of the whole file.

    Raises:
        OSError: the directory cannot be written.
    """

    def __init__(self, final: Path, identity: str, n_bytes: int) -> None:
        self.final = final
        self.file, self._journal = _beside(final)
        self.identity = identity
        self.n_bytes = n_bytes
        self._lock = threading.Lock()
        self._saved_s = 0.0
        self._ranges = _read_journal(final, identity, n_bytes)
        if not self._ranges:
            self._journal.unlink(missing_ok=True)
        self._stream = self.file.open("r+b" if self._ranges else "w+b")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Write down what has arrived, so that it can be taken up again; remove what holds nothing. Harmless when repeated."""
        with self._lock:
            if self._stream.closed:
                return
            self._save()
            self._stream.close()
            if not self._ranges:
                self.file.unlink(missing_ok=True)
                self._journal.unlink(missing_ok=True)

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at their place. Raises OSError, of which ENOSPC is the likely one."""
        with self._lock:
            self._stream.seek(offset)
            self._stream.write(data)
            self._ranges = with_range(self._ranges, offset, offset + len(data))
            if time.monotonic() - self._saved_s > SAVE_INTERVAL_S:
                self._save()

    def forget(self, start: int, end: int) -> None:
        """Bytes [start, end) turned out to be wrong: they count as missing again."""
        with self._lock:
            self._ranges = without_range(self._ranges, start, end)
            self._save()

    def covered(self, start: int, end: int) -> int:
        """How many bytes of [start, end) have arrived."""
        return covered(self._ranges, start, end)

    def missing(self, start: int, end: int) -> list[Range]:
        """The ranges of [start, end) that have not arrived, in order."""
        return missing(self._ranges, start, end)

    def sha256(self, start: int, end: int) -> str:
        """Sum of the bytes [start, end) as they are now, lower-case hex."""
        digest = hashlib.sha256()
        with self._lock:
            self._stream.flush()
        with self.file.open("rb") as stream:
            stream.seek(start)
            while start < end and (block := stream.read(min(BLOCK_BYTES, end - start))):
                digest.update(block)
                start += len(block)
        return digest.hexdigest()

    def finish(self, sha256: str) -> str:
        """Check the whole file and move it to its final name, on the disk before it gets there.

        Args:
            sha256: what the sum must be; "" where nobody gave one.

        Returns:
            The sum of the file. If it is not the expected one, nothing was moved and every byte is discarded.
        """
        with self._lock:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
        found = sha256_of(self.file)
        if sha256 and found != sha256:
            self.discard()
            return found
        self.file.replace(self.final)
        self._journal.unlink(missing_ok=True)
        _sync_directory(self.final.parent)
        return found

    def discard(self) -> None:
        """Remove everything that has arrived."""
        with self._lock:
            self._stream.close()
            self._ranges = []
            self.file.unlink(missing_ok=True)
            self._journal.unlink(missing_ok=True)

    def _save(self) -> None:
        self._stream.flush()  # the journal must never be ahead of the bytes
        draft = self._journal.with_name(self._journal.name + ".new")
        draft.write_text(json.dumps({"identity": self.identity, "bytes": self.n_bytes, "ranges": self._ranges}))
        draft.replace(self._journal)
        self._saved_s = time.monotonic()


def arrived_bytes(final: Path, identity: str, n_bytes: int) -> int:
    """Bytes of that exact file that an earlier, interrupted pull left beside `final`."""
    return covered(_read_journal(final, identity, n_bytes), 0, n_bytes)


def _beside(final: Path) -> tuple[Path, Path]:
    return final.with_name(final.name + ".partial"), final.with_name(final.name + ".partial.json")


def _read_journal(final: Path, identity: str, n_bytes: int) -> list[Range]:
    """What has arrived of this content; [] if there is nothing, or something else, or a journal that makes no sense."""
    file, journal = _beside(final)
    try:
        length = file.stat().st_size
        notes = json.loads(journal.read_text())
        if (notes["identity"], notes["bytes"]) != (identity, n_bytes):
            return []
        ranges: list[Range] = []
        for start, end in notes["ranges"]:
            ranges = with_range(ranges, int(start), int(end))
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return ranges if all(start >= 0 and end <= min(length, n_bytes) for start, end in ranges) else []


def _sync_directory(directory: Path) -> None:
    if os.name == "nt":
        return  # directories cannot be opened there, and renames are journalled
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
