"""Arrays of strings, which make up nearly all of a header: 152,000 tokens and as many merges."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from struct import Struct
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from outrider.errors import ModelFileError
from outrider.gguf.cursor import INCOMPLETE, MALFORMED, Cursor

_LENGTH: Final = Struct("<Q")


class StringArray(Sequence[str]):
    """A read-only list of strings that are kept as bytes and decoded when asked for.

    Every length and the UTF-8 of every string were checked when the array was read, so decoding cannot fail. Memory is
    what the array occupies in the file. `list(array)` decodes one by one; `tolist` is the fast way.
    """

    __slots__ = ("_blob", "_bounds", "_offset")

    def __init__(self, blob: bytes, bounds: NDArray[np.int64], offset: int) -> None:
        """Wrap checked bytes.

        Args:
            blob: the strings, one after the other, UTF-8, without their lengths.
            bounds: [n + 1], where string i is blob[bounds[i]:bounds[i + 1]].
            offset: file offset of the first string's length.
        """
        self._blob = blob
        self._bounds = bounds
        self._offset = offset

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = range(len(self))[index]  # negative indices and IndexError as in any list
        return self._blob[self._bounds[position] : self._bounds[position + 1]].decode()

    def __repr__(self) -> str:
        return f"<StringArray of {len(self)}>"

    def tolist(self) -> list[str]:
        """All strings, decoded."""
        blob = self._blob
        return [blob[start:end].decode() for start, end in pairwise(self._bounds.tolist())]

    def offset_of(self, index: int) -> int:
        """File offset of a string (of its length field), for messages; 0 <= index < len(self)."""
        return self._offset + _LENGTH.size * index + int(self._bounds[index])


def take_strings(cursor: Cursor, count: int, field: str) -> StringArray:
    """Read `count` strings that follow each other.

    The caller has checked that `count` lengths fit into the rest of the file.

    Raises:
        ModelFileError: a length passes the end of the file, or a string is not UTF-8.
    """
    offset = cursor.offset
    blob = bytearray()
    lengths = array("Q")
    while len(lengths) < count:
        window = cursor.peek()
        pieces, n_bytes = _split(window, count - len(lengths))
        if pieces:
            cursor.take(n_bytes, field)
        else:  # longer than the window, or cut off: the plain way handles both
            pieces = [cursor.string_bytes(f"entry {len(lengths)} of {field}")]
        joined = b"".join(pieces)
        _check_text(cursor, pieces, offset + _LENGTH.size * len(lengths) + len(blob), len(lengths), field)
        blob += joined
        lengths.extend(map(len, pieces))
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.array(lengths, dtype=np.int64), out=bounds[1:])
    return StringArray(bytes(blob), bounds, offset)


def _split(window: bytes, most: int) -> tuple[list[bytes], int]:
    """The strings that lie in the window completely, at most `most`, and the bytes that they occupy with their lengths."""
    unpack, header, end = _LENGTH.unpack_from, _LENGTH.size, len(window)
    pieces: list[bytes] = []
    position = 0
    for _ in range(most):
        start = position + header
        if start > end:
            break
        stop = start + unpack(window, position)[0]
        if stop > end:
            break
        pieces.append(window[start:stop])
        position = stop
    return pieces, position


def _check_text(cursor: Cursor, pieces: list[bytes], offset: int, first: int, field: str) -> None:
    # One decode for all: the separator is ASCII, so no sequence can reach from one string into the next.
    try:
        b"\n".join(pieces).decode()
    except UnicodeDecodeError:
        raise _bad_text(cursor, pieces, offset, first, field) from None


def _bad_text(cursor: Cursor, pieces: list[bytes], offset: int, first: int, field: str) -> ModelFileError:
    for index, piece in enumerate(pieces, first):
        try:
            piece.decode()
        except UnicodeDecodeError:
            return cursor.error(f"entry {index} of {field} is not valid UTF-8", MALFORMED, offset)
        offset += _LENGTH.size + len(piece)
    return cursor.error(f"{field} is not valid UTF-8", INCOMPLETE, offset)
