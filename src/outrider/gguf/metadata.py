"""The keys and values of a header, and the typed way to ask for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from outrider.errors import ModelFileError
from outrider.gguf.cursor import INCOMPLETE, MALFORMED, Cursor, shown
from outrider.gguf.string_array import StringArray
from outrider.gguf.value import INTEGER_TYPES, NUMBER_TYPES, Array, Value, ValueType, take_value

MAX_KEY_BYTES: Final = (1 << 16) - 1
"""Longest key that the format allows."""

SMALLEST_ENTRY_BYTES: Final = 8 + 1 + 4 + 1
"""A key of one character, its length, the value's type and a value of one byte."""

_T = TypeVar("_T")


class _Required(Enum):
    REQUIRED = "a key without a default"


_REQUIRED: Final = _Required.REQUIRED


class TypedMetadata:
    """Accessors that state the type they need; whoever derives from it has `path` and `metadata`.

    Each takes the key and, unless the key is required, what to return where it is absent.

    Raises:
        ModelFileError: the key is required and absent (no offset), or has another type or an illegal value (at the value).
    """

    path: str
    metadata: Mapping[str, Value]

    @overload
    def string(self, key: str) -> str: ...
    @overload
    def string(self, key: str, default: _T) -> str | _T: ...
    def string(self, key: str, default: Any = _REQUIRED) -> Any:
        """A string value."""
        value = self._find(key, default, "a string")
        if value is None:
            return default
        if value.type is not ValueType.STRING:
            raise self._mismatch(key, value, "a string")
        return value.value

    @overload
    def integer(self, key: str, *, low: int = ..., high: int = ...) -> int: ...
    @overload
    def integer(self, key: str, default: _T, *, low: int = ..., high: int = ...) -> int | _T: ...
    def integer(self, key: str, default: Any = _REQUIRED, *, low: int = -(1 << 63), high: int = (1 << 64) - 1) -> Any:
        """An integer value of any width, from `low` to `high` inclusive. A bool is no integer."""
        value = self._find(key, default, "an integer")
        if value is None:
            return default
        if value.type not in INTEGER_TYPES or not isinstance(value.value, int):
            raise self._mismatch(key, value, "an integer")
        if not low <= value.value <= high:
            raise self.error(f"key {shown(key)} is {value.value}, expected {low} to {high}", MALFORMED, value.offset)
        return value.value

    @overload
    def number(self, key: str, *, low: float = ..., high: float = ...) -> float: ...
    @overload
    def number(self, key: str, default: _T, *, low: float = ..., high: float = ...) -> float | _T: ...
    def number(self, key: str, default: Any = _REQUIRED, *, low: float = -math.inf, high: float = math.inf) -> Any:
        """A finite floating-point value, from `low` to `high` inclusive. An integer is none."""
        value = self._find(key, default, "a floating-point number")
        if value is None:
            return default
        if value.type not in NUMBER_TYPES or not isinstance(value.value, float):
            raise self._mismatch(key, value, "a floating-point number")
        if not math.isfinite(value.value) or not low <= value.value <= high:
            bounds = f", expected {low:g} to {high:g}" if (low, high) != (-math.inf, math.inf) else ", expected a finite number"
            raise self.error(f"key {shown(key)} is {value.value:g}{bounds}", MALFORMED, value.offset)
        return value.value

    @overload
    def boolean(self, key: str) -> bool: ...
    @overload
    def boolean(self, key: str, default: _T) -> bool | _T: ...
    def boolean(self, key: str, default: Any = _REQUIRED) -> Any:
        """A bool value."""
        value = self._find(key, default, "a bool")
        if value is None:
            return default
        if value.type is not ValueType.BOOL:
            raise self._mismatch(key, value, "a bool")
        return value.value

    @overload
    def array(self, key: str) -> Array: ...
    @overload
    def array(self, key: str, default: _T) -> Array | _T: ...
    def array(self, key: str, default: Any = _REQUIRED) -> Any:
        """An array of any element type."""
        value = self._find(key, default, "an array")
        if value is None:
            return default
        if value.type is not ValueType.ARRAY:
            raise self._mismatch(key, value, "an array")
        return value.value

    @overload
    def strings(self, key: str) -> StringArray: ...
    @overload
    def strings(self, key: str, default: _T) -> StringArray | _T: ...
    def strings(self, key: str, default: Any = _REQUIRED) -> Any:
        """An array of strings."""
        return self._elements(key, default, frozenset({ValueType.STRING}), "an array of strings")

    @overload
    def integers(self, key: str) -> NDArray[Any]: ...
    @overload
    def integers(self, key: str, default: _T) -> NDArray[Any] | _T: ...
    def integers(self, key: str, default: Any = _REQUIRED) -> Any:
        """An array of integers: read-only, [n], in the file's own width."""
        return self._elements(key, default, INTEGER_TYPES, "an array of integers")

    @overload
    def numbers(self, key: str) -> NDArray[Any]: ...
    @overload
    def numbers(self, key: str, default: _T) -> NDArray[Any] | _T: ...
    def numbers(self, key: str, default: Any = _REQUIRED) -> Any:
        """An array of finite floating-point numbers: read-only, [n], in the file's own width."""
        elements = self._elements(key, default, NUMBER_TYPES, "an array of floating-point numbers")
        if elements is not default and not np.isfinite(elements).all():
            index = int(np.argmin(np.isfinite(elements)))
            message = f"entry {index} of key {shown(key)} is {elements[index]}, expected a finite number"
            raise self.error(message, MALFORMED, self.offset_of(key))
        return elements

    def offset_of(self, key: str) -> int | None:
        """File offset of a key's value, or None if it is absent: for messages of whoever interprets it."""
        value = self.metadata.get(key)
        return value.offset if value is not None else None

    def error(self, message: str, hint: str, offset: int | None) -> ModelFileError:
        """An error about this file; to be raised by the caller."""
        return ModelFileError(message, hint, path=self.path, offset=offset)

    def _find(self, key: str, default: object, expected: str) -> Value | None:
        value = self.metadata.get(key)
        if value is None and default is _REQUIRED:
            raise self.error(f"key {shown(key)} is missing, expected {expected}", INCOMPLETE, None)
        return value

    def _elements(self, key: str, default: object, kinds: frozenset[ValueType], expected: str) -> Any:
        value = self._find(key, default, expected)
        if value is None:
            return default
        if value.element_type not in kinds:
            raise self._mismatch(key, value, expected)
        return value.value

    def _mismatch(self, key: str, value: Value, expected: str) -> ModelFileError:
        return self.error(f"key {shown(key)} is of type {value.type_name}, expected {expected}", MALFORMED, value.offset)


def take_metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    """Read `count` keys with their values.

    Raises:
        ModelFileError: a key is empty, too long, unprintable or a duplicate, or its value is malformed.
    """
    metadata: dict[str, Value] = {}
    for index in range(count):
        offset = cursor.offset
        key = cursor.string(f"key {index}", MAX_KEY_BYTES)
        check_name(cursor, key, f"key {index}", offset)
        if key in metadata:
            raise cursor.error(f"key {shown(key)} appears twice", MALFORMED, offset)
        metadata[key] = take_value(cursor, f"value of key {shown(key)}")
    return metadata


def check_name(cursor: Cursor, name: str, field: str, offset: int) -> None:
    """Refuse names that are empty or hold a NUL or anything else that cannot be printed on one line."""
    if not name:
        raise cursor.error(f"{field} is empty", MALFORMED, offset)
    if not name.isprintable():
        raise cursor.error(f"{field} is {shown(name)}, expected printable characters only", MALFORMED, offset)
