"""Models that were split into several files, named like model-00001-of-00003.gguf."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outrider.errors import ModelFileError, ModelMissingError
from outrider.gguf.cursor import INCOMPLETE, MALFORMED, shown
from outrider.gguf.header import Header, read_header
from outrider.gguf.tensor import TensorInfo

MAX_PARTS: Final = (1 << 16) - 1
"""The count is stored in 16 bits."""

_COUNT: Final = "split.count"
_INDEX: Final = "split.no"
_TENSORS: Final = "split.tensors.count"

_NAME: Final = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf")
_RENAMED: Final = "parts must keep the names that they were given, such as model-00001-of-00003.gguf"


@dataclass(frozen=True, slots=True)
class Split:
    """A complete model: one header, or those of all its parts in order. The first holds the metadata."""

    parts: tuple[Header, ...]

    @property
    def header(self) -> Header:
        """The header that holds the metadata."""
        return self.parts[0]

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """Tensors of all parts. Their offsets count inside their own part's file."""
        return tuple(tensor for part in self.parts for tensor in part.tensors)

    @property
    def file_bytes(self) -> int:
        return sum(part.file_bytes for part in self.parts)


def split_names(name: str) -> tuple[str, ...]:
    """File names of all parts, in order, given the name of any of them; one name if it is not that of a part.

    Raises:
        ModelFileError: the name leaves its directory, or its numbers make no sense.
    """
    if not name or name != Path(name).name or "\\" in name or name == "..":
        raise ModelFileError(f"{shown(name)} is no plain file name", "names of parts must not hold / or \\", path=name)
    match = _NAME.fullmatch(name)
    if match is None:
        return (name,)
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count <= MAX_PARTS:
        raise ModelFileError(f"part {number} of {count} makes no sense", _RENAMED, path=name)
    return tuple(f"{match['stem']}-{part:05d}-of-{count:05d}.gguf" for part in range(1, count + 1))


def read_split(path: str | os.PathLike[str]) -> Split:
    """Read the headers of a model, be it one file or, given any of its parts, many.

    Other parts are looked for beside the given file, under the names that follow from its own name; nothing in a file
    decides which files are opened.

    Raises:
        ModelFileError: a part's number or count contradicts its name, or a tensor is missing or there twice.
        ModelMissingError: a part is missing.
        UnsupportedModelError: as `read_header`.
    """
    given = Path(path)
    header = read_header(path)
    count = header.integer(_COUNT, 0, low=0, high=MAX_PARTS)
    if count <= 1 and not _NAME.fullmatch(given.name):  # 0 is what llama.cpp leaves in a file merged from parts
        return Split((header,))
    names = split_names(given.name)
    if len(names) != count:
        message = f"key {_COUNT!r} is {count}, but the file's name says {len(names)}"
        raise header.error(message, _RENAMED, header.offset_of(_COUNT))
    parts = tuple(_read_part(given, name, index, count) for index, name in enumerate(names))
    split = Split(parts)
    _check_tensors(split)
    return split


def _read_part(given: Path, name: str, index: int, count: int) -> Header:
    path = given.with_name(name)
    try:
        header = read_header(path)
    except ModelMissingError as cause:
        message = f"part {index + 1} of {count} cannot be read: {cause.message}"
        raise ModelMissingError(message, "put all parts into one directory", path=str(path)) from cause
    for key, expected in ((_COUNT, count), (_INDEX, index)):
        found = header.integer(key)
        if found != expected:
            message = f"key {key!r} is {found}, but the file's name says {expected}"
            raise header.error(message, _RENAMED, header.offset_of(key))
    return header


def _check_tensors(split: Split) -> None:
    seen: set[str] = set()
    for part in split.parts:
        for tensor in part.tensors:
            if tensor.name in seen:
                raise part.error(f"tensor {shown(tensor.name)} is in two parts", MALFORMED, tensor.info_offset)
            seen.add(tensor.name)
    header = split.header
    expected = header.integer(_TENSORS, len(seen))
    if expected != len(seen):
        message = f"key {_TENSORS!r} is {expected}, but the parts hold {len(seen)} tensors"
        raise header.error(message, INCOMPLETE, header.offset_of(_TENSORS))
