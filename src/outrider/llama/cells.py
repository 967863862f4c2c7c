"""Who holds which cell of a shared KV cache: the book that llama.cpp keeps inside and doesn't show."""

from __future__ import annotations

from outrider.errors import CacheFullError


class CellLedger:
    """Counts the holders of every cell, so that `free` is exact although forks share cells. Pure bookkeeping.

    The cell numbers are this ledger's own: llama.cpp places rows where it likes, one cell per row either way.

    Args:
        n_cells: cells of the cache.
    """

    def __init__(self, n_cells: int) -> None:
        self._n_cells = n_cells
        self._n_used_once = 0  # cells from here on were never held
        self._returned: list[int] = []
        self._holders: dict[int, int] = {}
        self._held: dict[int, list[int]] = {}

    @property
    def free(self) -> int:
        """Cells that nobody holds."""
        return self._n_cells - len(self._holders)

    def extend(self, line: int, n: int) -> None:
        """Give `n` free cells to a line. Raises CacheFullError where there are fewer."""
        if n > self.free:
            raise CacheFullError(f"{n} rows don't fit the {self.free} free cells of the KV cache", "close a sequence, or raise -c")
        n_returned = min(n, len(self._returned))
        cells = self._returned[len(self._returned) - n_returned :]
        del self._returned[len(self._returned) - n_returned :]
        n_fresh = n - n_returned
        cells += range(self._n_used_once, self._n_used_once + n_fresh)
        self._n_used_once += n_fresh
        self._holders.update(dict.fromkeys(cells, 1))
        self._held.setdefault(line, []).extend(cells)

    def cut(self, line: int, length: int) -> None:
        """Take away all but the first `length` cells of a line; those that nobody else holds become free."""
        held = self._held.get(line, [])
        for cell in held[length:]:
            self._holders[cell] -= 1
            if not self._holders[cell]:
                del self._holders[cell]
                self._returned.append(cell)
        del held[length:]

    def share(self, source: int, target: int, length: int) -> None:
        """Let the empty line `target` hold the first `length` cells of `source` too."""
        cells = self._held.get(source, [])[:length]
        for cell in cells:
            self._holders[cell] += 1
        self._held[target] = cells
