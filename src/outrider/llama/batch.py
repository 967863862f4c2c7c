"""The rows of one pass, laid out as llama.cpp wants them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider.llama.library import Library


class Batch:
    """A `llama_batch` over our own arrays, made once and filled again for every pass. Not thread-safe.

    Args:
        lib: the library.
        max_rows: rows that it can hold.

    Attributes:
        struct: what `Library.decode` takes.
        n_rows: rows in it now.
    """

    def __init__(self, lib: Library, max_rows: int) -> None:
        self._tokens = np.zeros(max_rows, dtype=np.int32)
        self._positions = np.zeros(max_rows, dtype=np.int32)
        self._lines = np.zeros(max_rows, dtype=np.int32)
        self._outputs = np.zeros(max_rows, dtype=np.int8)
        self._n_lines = np.ones(max_rows, dtype=np.int32)  # every row belongs to exactly one sequence
        # llama.cpp wants an array of pointers, one per row, to that row's list of sequences.
        self._line_pointers = self._lines.ctypes.data + self._lines.itemsize * np.arange(max_rows, dtype=np.uintp)
        self.struct: Any = lib.new_batch()
        for name, array in (
            ("token", self._tokens),
            ("pos", self._positions),
            ("n_seq_id", self._n_lines),
            ("seq_id", self._line_pointers),
            ("logits", self._outputs),
        ):
            kind = type(getattr(self.struct, name))
            setattr(self.struct, name, ctypes.cast(array.ctypes.data, kind))
        self.n_rows = 0

    def clear(self) -> None:
        """Forget all rows."""
        self.n_rows = 0
        self.struct.n_tokens = 0

    def add(self, line: int, tokens: tuple[int, ...], start: int, n_outputs: int) -> None:
        """Append a chain of rows; the caller has checked that they fit.

        Args:
            line: KV cache line of the sequence.
            tokens: token ids, inside the vocabulary.
            start: position of the first one.
            n_outputs: how many rows want logits, counted from the end.
        """
        first, last = self.n_rows, self.n_rows + len(tokens)
        self._tokens[first:last] = tokens
        self._positions[first:last] = np.arange(start, start + len(tokens))
        self._lines[first:last] = line
        self._outputs[first:last] = 0
        self._outputs[last - n_outputs : last] = 1
        self.n_rows = last
        self.struct.n_tokens = last

    def output_indices(self) -> NDArray[np.int64]:
        """Int64 [n_rows]: each row's place among the rows that want logits, -1 for the others."""
        wanted = self._outputs[: self.n_rows] != 0
        return np.where(wanted, np.cumsum(wanted) - 1, -1)
