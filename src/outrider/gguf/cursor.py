"""The only way through an untrusted file: a cursor that takes what is there, and nothing else."""

from __future__ import annotations

import os
import stat
from typing import Final, Self

from outrider.errors import ModelFileError, ModelMissingError

CHUNK_BYTES: Final = 1 << 18
"""Bytes asked from the file at a time."""

MAX_HEADER_BYTES: Final = 1 << 26
"""Several times what the largest vocabularies need; a lying count must not read a whole model into memory."""

INCOMPLETE: Final = "the file is damaged or was not fully downloaded: fetch it again"
MALFORMED: Final = "the file is malformed: fetch it again, or convert the model again"

_SHOWN: Final = 60


def shown(text: str) -> str:
    """Text of a file as it may appear in a one-line message: quoted, escaped and cut."""
    return repr(text) if len(text) <= _SHOWN else repr(text[:_SHOWN]) + "..."


class Cursor:
    """A position in an open file that only `take` moves, and never past what the file had when it was opened.

    Holds at most one chunk of the file (more only while one long field is taken). The descriptor belongs to the cursor:
    use it as a context manager. Not thread-safe.

    Attributes:
        path: the file, for messages.
        n_bytes: size of the file when it was opened.
        offset: absolute position of the next byte.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a regular file.

        Raises:
            ModelMissingError: there is no such file, it is a directory or a device, or it cannot be opened.
        """
        self.path = os.fspath(path)
        self._descriptor = _open(self.path)
        self.n_bytes = os.fstat(self._descriptor).st_size
        self._window = b""
        self._base = 0  # file offset of the window's first byte
        self._at = 0  # next byte inside the window

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    @property
    def offset(self) -> int:
        return self._base + self._at

    @property
    def remaining(self) -> int:
        """Bytes between the position and the end of the file."""
        return self.n_bytes - self.offset

    def take(self, n: int, field: str) -> bytes:
        """The next `n` bytes, which are those of `field`.

        Raises:
            ModelFileError: fewer bytes remain, the header would pass MAX_HEADER_BYTES, or the file shrank meanwhile.
        """
        start = self._at
        end = start + n
        if end > len(self._window):
            self._check(n, field)
            if n > CHUNK_BYTES:
                return self._take_long(n)
            self._fill(n)
            start, end = 0, n
        self._at = end
        return self._window[start:end]

    def peek(self) -> bytes:
        """What is buffered from the position on: CHUNK_BYTES or more unless the file ends before; does not move."""
        if len(self._window) - self._at < min(CHUNK_BYTES, self.remaining):
            self._fill(CHUNK_BYTES)
        return self._window[self._at :]

    def u32(self, field: str) -> int:
        """An unsigned 32-bit field."""
        return int.from_bytes(self.take(4, field), "little")

    def u64(self, field: str) -> int:
        """An unsigned 64-bit field."""
        return int.from_bytes(self.take(8, field), "little")

    def string_bytes(self, field: str, longest: int = MAX_HEADER_BYTES) -> bytes:
        """A string field: a 64-bit length, then that many bytes. A length beyond `longest` is an error at the length."""
        offset = self.offset
        n = self.u64(f"length of {field}")
        if n > self.remaining:
            raise self.error(f"length of {field} is {n} bytes, but the file has only {self.remaining} more", INCOMPLETE, offset)
        if n > longest:
            raise self.error(f"length of {field} is {n} bytes, expected at most {longest}", MALFORMED, offset)
        return self.take(n, field)

    def string(self, field: str, longest: int = MAX_HEADER_BYTES) -> str:
        """A string field, decoded; anything but UTF-8 is an error."""
        offset = self.offset
        try:
            return self.string_bytes(field, longest).decode()
        except UnicodeDecodeError as cause:
            raise self.error(f"{field} is not valid UTF-8", MALFORMED, offset) from cause

    def error(self, message: str, hint: str, offset: int | None = None) -> ModelFileError:
        """An error about this file, at `offset` or at the position; to be raised by the caller."""
        return ModelFileError(message, hint, path=self.path, offset=self.offset if offset is None else offset)

    def _check(self, n: int, field: str) -> None:
        if n > self.remaining:
            raise self.error(f"{field} needs {n} bytes, but the file has only {self.remaining} more", INCOMPLETE)
        if n > MAX_HEADER_BYTES - self.offset:
            raise self.error(f"{field} ends beyond the first {MAX_HEADER_BYTES} bytes, too far for a header", MALFORMED)

    def _fill(self, n: int) -> None:
        kept = self._window[self._at :]
        self._base += self._at
        self._at = 0
        self._window = kept  # so that a failing read leaves the cursor where it was
        wanted = min(max(n, CHUNK_BYTES), self.n_bytes - self._base)
        self._window = kept + self._read(wanted - len(kept))

    def _take_long(self, n: int) -> bytes:
        kept = self._window[self._at :]
        taken = kept + self._read(n - len(kept))
        self._base += self._at + n
        self._at = 0
        self._window = b""
        return taken

    def _read(self, n: int) -> bytes:
        pieces: list[bytes] = []
        left = n
        while left:
            piece = os.read(self._descriptor, left)
            if not piece:
                raise self.error("the file shrank while it was read", INCOMPLETE)
            pieces.append(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _open(path: str) -> int:
    # Without O_NONBLOCK, opening a pipe that is named like a model would wait for ever.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError as cause:
        hint = "check the path; `outrider models list` shows what can be pulled by name"
        raise ModelMissingError("there is no such file", hint, path=path) from cause
    except (OSError, ValueError) as cause:  # ValueError: a NUL inside the path
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
        raise ModelMissingError(f"the file cannot be opened: {reason}", "check the path and its permissions", path=path) from cause
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        kind = "a directory" if os.path.isdir(path) else "not a regular file"  # noqa: PTH112  # the path is a plain string here
        raise ModelMissingError(f"this is {kind}", "give the path of a .gguf file", path=path)
    return descriptor
