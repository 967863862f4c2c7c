"""Metadata values: their types in the file, and how each is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outrider.gguf.cursor import INCOMPLETE, MALFORMED, Cursor
from outrider.gguf.string_array import StringArray, take_strings


class ValueType(IntEnum):
    """Type of a metadata value, numbered as in the file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


INTEGER_TYPES: Final = frozenset(
    {
        ValueType.UINT8,
        ValueType.INT8,
        ValueType.UINT16,
        ValueType.INT16,
        ValueType.UINT32,
        ValueType.INT32,
        ValueType.UINT64,
        ValueType.INT64,
    }
)
NUMBER_TYPES: Final = frozenset({ValueType.FLOAT32, ValueType.FLOAT64})

Array: TypeAlias = StringArray | NDArray[Any]
"""Strings, or a read-only numpy array [n] of the file's element type (bool for BOOL)."""

_LETTERS: Final = {  # struct and numpy call these by the same letters
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.BOOL: "B",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}
_SCALARS: Final = {kind: Struct("<" + letter) for kind, letter in _LETTERS.items()}
_DTYPES: Final[dict[ValueType, np.dtype[Any]]] = {kind: np.dtype("<" + letter) for kind, letter in _LETTERS.items()}
_TYPES: Final = {kind.value: kind for kind in ValueType}
_STRING_LENGTH_BYTES: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One metadata value.

    Attributes:
        type: its type in the file.
        element_type: type of the elements if it is an array, else None.
        value: str, int, float or bool; a StringArray or a read-only numpy array for an array.
        offset: file offset of the value's first byte (for an array: of its element type).
    """

    type: ValueType
    element_type: ValueType | None
    value: str | int | float | bool | Array
    offset: int

    @property
    def type_name(self) -> str:
        """For messages: "uint32", "array of string"."""
        if self.element_type is not None:
            return f"array of {self.element_type.name.lower()}"
        return self.type.name.lower()


def take_value(cursor: Cursor, field: str) -> Value:
    """Read a value with its type.

    Args:
        cursor: at the value's type.
        field: what messages call the value.

    Raises:
        ModelFileError: unknown type, count beyond the file, nested array, a bool other than 0 or 1, text that is not UTF-8.
    """
    kind = _take_type(cursor, f"type of {field}")
    offset = cursor.offset
    if kind is ValueType.ARRAY:
        element_type, elements = _take_array(cursor, field)
        return Value(kind, element_type, elements, offset)
    if kind is ValueType.STRING:
        return Value(kind, None, cursor.string(field), offset)
    scalar = _SCALARS[kind]
    (number,) = scalar.unpack(cursor.take(scalar.size, field))
    if kind is ValueType.BOOL:
        if number > 1:
            raise cursor.error(f"{field} is a bool of value {number}, expected 0 or 1", MALFORMED, offset)
        number = bool(number)
    return Value(kind, None, number, offset)


def _take_type(cursor: Cursor, field: str) -> ValueType:
    offset = cursor.offset
    number = cursor.u32(field)
    if number not in _TYPES:
        raise cursor.error(f"{field} is {number}, expected 0 to {max(_TYPES)}", MALFORMED, offset)
    return _TYPES[number]


def _take_array(cursor: Cursor, field: str) -> tuple[ValueType, Array]:
    offset = cursor.offset
    kind = _take_type(cursor, f"element type of {field}")
    if kind is ValueType.ARRAY:
        raise cursor.error(f"{field} is an array of arrays", "nested arrays are not supported: convert the model again", offset)
    offset = cursor.offset
    count = cursor.u64(f"count of {field}")
    size = _STRING_LENGTH_BYTES if kind is ValueType.STRING else _DTYPES[kind].itemsize
    if count > cursor.remaining // size:
        message = f"{field} has {count} elements of {size} bytes or more, but the file has only {cursor.remaining} bytes more"
        raise cursor.error(message, INCOMPLETE, offset)
    if kind is ValueType.STRING:
        return kind, take_strings(cursor, count, field)
    offset = cursor.offset
    elements = np.frombuffer(cursor.take(count * size, field), dtype=_DTYPES[kind])
    if kind is ValueType.BOOL:
        if elements.size and elements.max() > 1:
            index = int(np.argmax(elements > 1))
            raise cursor.error(f"entry {index} of {field} is a bool of value {elements[index]}, expected 0 or 1", MALFORMED, offset + index)
        elements = elements.view(np.bool_)
    return kind, elements
