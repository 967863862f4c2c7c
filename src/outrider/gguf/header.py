"""The one reader of GGUF headers: everything else in the package works on the checked table that it returns.

The format is described in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Files are untrusted: whatever is in
them, reading ends with a Header or with an error that names the field and its offset, in time and memory bounded by the
header's own size. Tensor data is neither read nor mapped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from outrider.errors import UnsupportedModelError
from outrider.gguf.cursor import INCOMPLETE, MALFORMED, Cursor, shown
from outrider.gguf.metadata import SMALLEST_ENTRY_BYTES as SMALLEST_KEY_BYTES
from outrider.gguf.metadata import TypedMetadata, take_metadata
from outrider.gguf.tensor import SMALLEST_ENTRY_BYTES as SMALLEST_TENSOR_BYTES
from outrider.gguf.tensor import TensorInfo, take_tensors
from outrider.gguf.value import Value, ValueType

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
"""Versions that can be read; they differ only in that 3 also knows big-endian files."""

MAX_ENTRIES: Final = 1 << 17
"""Most keys, and most tensors: a hundred times what models have, and little enough for any machine."""

DEFAULT_ALIGNMENT: Final = 32
MAX_ALIGNMENT: Final = 1 << 22

_ALIGNMENT_KEY: Final = "general.alignment"
_OTHER_FORMATS: Final = (
    # first bytes, what they are, what to do
    (b"lmgg", "a GGML file from before GGUF", "fetch a GGUF file of the model"),
    (b"tjgg", "a GGJT file from before GGUF", "fetch a GGUF file of the model"),
    (b"fmgg", "a GGMF file from before GGUF", "fetch a GGUF file of the model"),
    (b"PK\x03\x04", "a zip archive, perhaps PyTorch weights", "unpack it, or fetch a GGUF file of the model"),
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself", "run `git lfs pull`, or fetch the file directly"),
    (b"<", "a web page", "the download link led to a page: fetch the file itself"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Header(TypedMetadata):
    """A checked header. Compared by identity.

    Attributes:
        path: the file.
        version: 2 or 3.
        alignment: bytes; a power of two from 8 to MAX_ALIGNMENT.
        metadata: every key in file order; `string`, `integer` and so on give typed access.
        tensors: in file order, one after the other, inside the file.
        data_offset: absolute offset of the data section, a multiple of the alignment.
        file_bytes: size of the file when it was read.
    """

    path: str
    version: int
    alignment: int
    metadata: Mapping[str, Value]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    file_bytes: int


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read and check the header of a GGUF file.

    Args:
        path: a regular file.

    Raises:
        ModelMissingError: there is no such file, or it cannot be opened.
        ModelFileError: the file is no GGUF, or malformed: at which byte, what was found and what was expected.
        UnsupportedModelError: big-endian, a version or a tensor type that cannot be read.
    """
    with Cursor(path) as cursor:
        _take_magic(cursor)
        version = _take_version(cursor)
        n_tensors, n_keys = _take_counts(cursor)
        metadata = take_metadata(cursor, n_keys)
        alignment = _alignment(cursor, metadata)
        tensors, data_offset = take_tensors(cursor, n_tensors, alignment)
        return Header(cursor.path, version, alignment, MappingProxyType(metadata), tensors, data_offset, cursor.n_bytes)


def _take_magic(cursor: Cursor) -> None:
    if cursor.n_bytes == 0:
        raise cursor.error("the file is empty, expected a GGUF model", INCOMPLETE, 0)
    start = cursor.peek()
    if start.startswith(MAGIC):
        cursor.take(len(MAGIC), "magic")
        return
    if MAGIC.startswith(start):
        raise cursor.error(f"the file ends after {len(start)} bytes, inside its magic", INCOMPLETE, 0)
    for first_bytes, name, hint in _OTHER_FORMATS:
        if start.startswith(first_bytes):
            raise cursor.error(f"magic is {_printable(start)}: this is {name}, expected 'GGUF'", hint, 0)
    raise cursor.error(f"magic is {_printable(start)}, expected 'GGUF'", "this is no GGUF model: check the path", 0)


def _printable(start: bytes) -> str:
    return shown(start[: len(MAGIC)].decode("latin-1"))


def _take_version(cursor: Cursor) -> int:
    offset = cursor.offset
    version = cursor.u32("version")
    if version in VERSIONS:
        return version
    if version and version & 0xFFFF == 0:  # what a small number looks like with its bytes reversed
        message, hint = "this is a big-endian file, expected a little-endian one", "convert the model for little-endian machines"
        raise UnsupportedModelError(f"version: {message}", hint, path=cursor.path, offset=offset)
    message = f"version is {version}, expected {VERSIONS[0]} or {VERSIONS[-1]}"
    if version == 0:
        raise cursor.error(message, MALFORMED, offset)
    hint = "convert or fetch the model anew" if version == 1 else "the file is damaged, or made for a newer Outrider: update it"
    raise UnsupportedModelError(message, hint, path=cursor.path, offset=offset)


def _take_counts(cursor: Cursor) -> tuple[int, int]:
    """Numbers of tensors and of keys, which are both known to fit into the rest of the file."""
    tensors_offset = cursor.offset
    n_tensors = cursor.u64("number of tensors")
    keys_offset = cursor.offset
    n_keys = cursor.u64("number of keys")
    _check_count(cursor, f"number of keys is {n_keys}", n_keys, n_keys * SMALLEST_KEY_BYTES, keys_offset)
    n_bytes = n_keys * SMALLEST_KEY_BYTES + n_tensors * SMALLEST_TENSOR_BYTES
    _check_count(cursor, f"number of tensors is {n_tensors}", n_tensors, n_bytes, tensors_offset)
    return n_tensors, n_keys


def _check_count(cursor: Cursor, what: str, n: int, n_bytes: int, offset: int) -> None:
    if n_bytes > cursor.remaining:
        raise cursor.error(f"{what}, which needs {n_bytes} bytes, but the file has only {cursor.remaining} more", INCOMPLETE, offset)
    if n > MAX_ENTRIES:
        raise cursor.error(f"{what}, expected at most {MAX_ENTRIES}", MALFORMED, offset)


def _alignment(cursor: Cursor, metadata: Mapping[str, Value]) -> int:
    value = metadata.get(_ALIGNMENT_KEY)
    if value is None:
        return DEFAULT_ALIGNMENT
    if value.type is not ValueType.UINT32 or not isinstance(value.value, int):
        raise cursor.error(f"key {_ALIGNMENT_KEY!r} is of type {value.type_name}, expected uint32", MALFORMED, value.offset)
    alignment = value.value
    if not 8 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        message = f"key {_ALIGNMENT_KEY!r} is {alignment}, expected a power of two from 8 to {MAX_ALIGNMENT}"
        raise cursor.error(message, MALFORMED, value.offset)
    return alignment
