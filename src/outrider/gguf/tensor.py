"""Tensor types, and the table of tensors of a header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from outrider.errors import UnsupportedModelError
from outrider.gguf.cursor import INCOMPLETE, MALFORMED, Cursor, shown
from outrider.gguf.metadata import check_name

MAX_DIMENSIONS: Final = 4
MAX_NAME_BYTES: Final = 63
"""llama.cpp keeps names in 64 bytes with a NUL at the end."""

SMALLEST_ENTRY_BYTES: Final = 8 + 1 + 4 + 8 + 4 + 8
"""A name of one character with its length, the number of dimensions, one dimension, type and offset."""

_MAX_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TensorType:
    """How numbers are stored.

    Attributes:
        name: ggml's name, such as "Q4_K".
        id: its number in the file.
        block_size: elements per block; 1 for plain types. A row is a whole number of blocks.
        block_bytes: bytes per block.
    """

    name: str
    id: int
    block_size: int
    block_bytes: int


_TYPES: Final = (
    TensorType("F32", 0, 1, 4),
    TensorType("F16", 1, 1, 2),
    TensorType("Q4_0", 2, 32, 18),
    TensorType("Q4_1", 3, 32, 20),
    TensorType("Q5_0", 6, 32, 22),
    TensorType("Q5_1", 7, 32, 24),
    TensorType("Q8_0", 8, 32, 34),
    TensorType("Q8_1", 9, 32, 40),
    TensorType("Q2_K", 10, 256, 84),
    TensorType("Q3_K", 11, 256, 110),
    TensorType("Q4_K", 12, 256, 144),
    TensorType("Q5_K", 13, 256, 176),
    TensorType("Q6_K", 14, 256, 210),
    TensorType("Q8_K", 15, 256, 292),
    TensorType("IQ2_XXS", 16, 256, 66),
    TensorType("IQ2_XS", 17, 256, 74),
    TensorType("IQ3_XXS", 18, 256, 98),
    TensorType("IQ1_S", 19, 256, 50),
    TensorType("IQ4_NL", 20, 32, 18),
    TensorType("IQ3_S", 21, 256, 110),
    TensorType("IQ2_S", 22, 256, 82),
    TensorType("IQ4_XS", 23, 256, 136),
    TensorType("I8", 24, 1, 1),
    TensorType("I16", 25, 1, 2),
    TensorType("I32", 26, 1, 4),
    TensorType("I64", 27, 1, 8),
    TensorType("F64", 28, 1, 8),
    TensorType("IQ1_M", 29, 256, 56),
    TensorType("BF16", 30, 1, 2),
    TensorType("TQ1_0", 34, 256, 54),
    TensorType("TQ2_0", 35, 256, 66),
    TensorType("MXFP4", 39, 32, 17),
    TensorType("NVFP4", 40, 64, 36),
    TensorType("Q1_0", 41, 128, 18),
    TensorType("Q2_0", 42, 64, 18),
)

TENSOR_TYPES: Final = {kind.id: kind for kind in _TYPES}
"""Every tensor type that a GGUF file may hold today, by its number (https://github.com/ggml-org/llama.cpp, ggml.h)."""

_REMOVED_TYPES: Final = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
_PLAUSIBLE_TYPES: Final = 256


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies, checked against the file.

    Attributes:
        name: 1 to 63 bytes, printable.
        type: how its numbers are stored.
        shape: 1 to 4 dimensions in ggml's order: the row length comes first. Each is at least 1.
        offset: absolute file offset of the first byte.
        n_bytes: size in the file, without padding; offset + n_bytes never passes the end of the file.
        info_offset: file offset of the tensor's entry in the header, for messages.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    offset: int
    n_bytes: int
    info_offset: int = 0

    @property
    def n_elements(self) -> int:
        return self.n_bytes // self.type.block_bytes * self.type.block_size


class _Entry(NamedTuple):
    """A tensor as the header states it: its offset counts from a data section whose start is not yet known."""

    name: str
    type: TensorType
    shape: tuple[int, ...]
    n_bytes: int
    start: int
    start_offset: int  # where the header says `start`
    info_offset: int


def take_tensors(cursor: Cursor, count: int, alignment: int) -> tuple[tuple[TensorInfo, ...], int]:
    """Read the table of tensors, which ends the header.

    Returns:
        The tensors in file order, and the absolute offset of the data section.

    Raises:
        ModelFileError: an entry is malformed, or the tensors don't lie one after the other inside the file.
        UnsupportedModelError: a tensor type that is no longer or not yet known.
    """
    seen: set[str] = set()
    entries = [_take_entry(cursor, index, seen) for index in range(count)]
    data_offset = _padded(cursor.offset, alignment)
    tensors = []
    expected = 0
    for entry in entries:
        _check_place(cursor, entry, cursor.n_bytes - data_offset, expected, alignment)
        expected = _padded(entry.start + entry.n_bytes, alignment)
        offset = data_offset + entry.start
        tensors.append(TensorInfo(entry.name, entry.type, entry.shape, offset, entry.n_bytes, entry.info_offset))
    return tuple(tensors), data_offset


def _padded(n: int, alignment: int) -> int:
    return (n + alignment - 1) // alignment * alignment


def _take_entry(cursor: Cursor, index: int, seen: set[str]) -> _Entry:
    info_offset = cursor.offset
    name = cursor.string(f"name of tensor {index}", MAX_NAME_BYTES)
    check_name(cursor, name, f"name of tensor {index}", info_offset)
    if name in seen:
        raise cursor.error(f"tensor {shown(name)} appears twice", MALFORMED, info_offset)
    seen.add(name)
    field = f"tensor {shown(name)}"
    shape, n_elements = _take_shape(cursor, field)
    kind_offset = cursor.offset
    kind = _take_type(cursor, field)
    if shape[0] % kind.block_size:
        message = f"{field} has rows of {shape[0]}, not a multiple of {kind.name}'s block of {kind.block_size}"
        raise cursor.error(message, MALFORMED, kind_offset)
    n_blocks = n_elements // kind.block_size
    if n_blocks > _MAX_INT64 // kind.block_bytes:
        raise cursor.error(f"{field} of shape {list(shape)} and type {kind.name} has more than 2^63 bytes", MALFORMED, kind_offset)
    start_offset = cursor.offset
    start = cursor.u64(f"offset of {field}")
    return _Entry(name, kind, shape, n_blocks * kind.block_bytes, start, start_offset, info_offset)


def _take_shape(cursor: Cursor, field: str) -> tuple[tuple[int, ...], int]:
    """A tensor's shape and its product, which is below 2^63."""
    offset = cursor.offset
    n_dimensions = cursor.u32(f"number of dimensions of {field}")
    if not 1 <= n_dimensions <= MAX_DIMENSIONS:
        raise cursor.error(f"{field} has {n_dimensions} dimensions, expected 1 to {MAX_DIMENSIONS}", MALFORMED, offset)
    shape: list[int] = []
    n_elements = 1
    for axis in range(n_dimensions):
        offset = cursor.offset
        size = cursor.u64(f"dimension {axis} of {field}")
        if size == 0:
            raise cursor.error(f"dimension {axis} of {field} is 0, expected 1 or more", MALFORMED, offset)
        if size > _MAX_INT64 // n_elements:
            raise cursor.error(f"{field} of shape {[*shape, size]} has more than 2^63 elements", MALFORMED, offset)
        n_elements *= size
        shape.append(size)
    return tuple(shape), n_elements


def _take_type(cursor: Cursor, field: str) -> TensorType:
    offset = cursor.offset
    number = cursor.u32(f"type of {field}")
    if number in TENSOR_TYPES:
        return TENSOR_TYPES[number]
    if number in _REMOVED_TYPES:
        message = f"type of {field} is {number} ({_REMOVED_TYPES[number]}), which was removed from the format"
        raise UnsupportedModelError(message, "fetch or make the model in a current type, such as Q4_K_M", path=cursor.path, offset=offset)
    if number < _PLAUSIBLE_TYPES:
        message = f"type of {field} is {number}, expected 0 to {max(TENSOR_TYPES)}"
        hint = "the file is damaged, or made for a newer Outrider: update it, or fetch the file again"
        raise UnsupportedModelError(message, hint, path=cursor.path, offset=offset)
    raise cursor.error(f"type of {field} is {number}, expected 0 to {max(TENSOR_TYPES)}", MALFORMED, offset)


def _check_place(cursor: Cursor, entry: _Entry, available: int, expected: int, alignment: int) -> None:
    field = f"tensor {shown(entry.name)}"
    if entry.start > available or entry.n_bytes > available - entry.start:
        message = f"{field} occupies {entry.n_bytes} bytes from {entry.start} on, but the file has {max(available, 0)} bytes of tensor data"
        raise cursor.error(message, INCOMPLETE, entry.start_offset)
    if entry.start % alignment:
        raise cursor.error(f"offset of {field} is {entry.start}, not a multiple of {alignment}", MALFORMED, entry.start_offset)
    if entry.start != expected:
        problem = "overlaps what comes before it" if entry.start < expected else "leaves a gap or is out of order"
        raise cursor.error(f"offset of {field} is {entry.start}, expected {expected}: it {problem}", MALFORMED, entry.start_offset)
