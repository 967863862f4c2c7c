"""What a row of malformed files is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outrider.errors import ModelFileError, OutriderError
from tests.gguf_files import GgufFile, tiny_model

SOMEWHERE = -1
"""Mark of an error that points into the file, wherever."""


@dataclass(frozen=True)
class Try:
    """One malformed file.

    Attributes:
        name: which variant of its kind.
        file: the file, or a function that puts something at a path and returns the path to read.
        says: regular expression that the message must match.
        mark: field of the file at whose offset the error must point; an offset; or None for an error without one.
        error: exact class.
        shrinks: cut the file to this many bytes after it was opened.
        shift: bytes from a field's mark on.
    """

    name: str
    file: GgufFile | bytes | Callable[[Path], Path]
    says: str
    mark: str | int | None
    error: type[OutriderError] = ModelFileError
    shrinks: int | None = None
    shift: int = 0

    @property
    def offset(self) -> int | None:
        """Where the error must point; known once the file was written."""
        if not isinstance(self.mark, str):
            return self.mark
        if not isinstance(self.file, GgufFile):
            raise TypeError(f"{self.name}: only a GgufFile has marks")
        return self.file.marks[self.mark] + self.shift

    def write(self, path: Path) -> Path:
        """Put the file at `path`; returns what is to be read."""
        if callable(self.file):
            return self.file(path)
        path.write_bytes(self.file if isinstance(self.file, bytes) else self.file.to_bytes())
        return path


def edited(edit: Callable[[GgufFile], object]) -> GgufFile:
    """The tiny model after an edit."""
    file = tiny_model()
    edit(file)
    return file
