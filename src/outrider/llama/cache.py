"""The KV cache of a context: lines of positions that can be extended, cut and shared."""

from __future__ import annotations

import heapq

from outrider.errors import EngineError
from outrider.llama.cells import CellLedger
from outrider.llama.library import Library, MemoryHandle


class KvCache:
    """llama.cpp's KV cache in its unified form: all sequences take their cells from one pool.

    Unified, because then a fork copies nothing, any sequence may grow to the full context, and rows of several sequences make one
    physical batch. Its price is that attention scans the cells of all sequences.

    Args:
        lib: the library.
        memory: the context's memory.
        n_cells: cells of the pool.
        n_sequences: lines that can be open at a time.
        window: positions that a sliding-window layer sees; 0 without such layers.
    """

    def __init__(self, lib: Library, memory: MemoryHandle, *, n_cells: int, n_sequences: int, window: int) -> None:
        self._lib = lib
        self._memory = memory
        self._window = window
        self._ledger = CellLedger(n_cells)
        self._unused = list(range(n_sequences))
        self.n_sequences = n_sequences

    @property
    def free(self) -> int:
        """Cells that no sequence holds."""
        return self._ledger.free

    def open(self) -> int:
        """The lowest unused line, empty. Raises EngineError where all are in use."""
        if not self._unused:
            raise EngineError(f"all {self.n_sequences} sequences of the model are in use", "close one first")
        return heapq.heappop(self._unused)

    def close(self, line: int) -> None:
        """Empty a line and give it back."""
        self.cut(line, 0)
        heapq.heappush(self._unused, line)

    def extend(self, line: int, n: int) -> None:
        """Note that a pass has added `n` rows to a line. Raises CacheFullError where the ledger has no room for them."""
        self._ledger.extend(line, n)

    def cut(self, line: int, length: int) -> None:
        """Drop every position from `length` on, in llama.cpp and in the ledger.

        Raises:
            EngineError: the cache cannot drop a part of a line (recurrent state), or has already forgotten positions that a
                sliding window needs at the new end. The line is unchanged in the first case and unusable in the second.
        """
        if not self._lib.remove_cells(self._memory, line, length):
            raise EngineError("llama.cpp could not drop the end of a sequence", "this model keeps a state that cannot be rewound")
        self._ledger.cut(line, length)
        if self._window and length and self._lib.first_position(self._memory, line) > max(0, length - self._window):
            raise EngineError(
                f"the model's sliding window of {self._window} positions has passed what position {length} needs",
                "start the sequence again from its tokens",
            )

    def share(self, source: int, target: int, length: int) -> None:
        """Let the empty line `target` see the first `length` positions of `source`."""
        if length:
            self._lib.share_cells(self._memory, source, target, length)
            self._ledger.share(source, target, length)
