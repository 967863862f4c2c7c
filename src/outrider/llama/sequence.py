"""One KV cache line of a llama.cpp model."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Final

from outrider.errors import EngineError
from outrider.llama.cache import KvCache

_CLOSED: Final = "the sequence is closed"


class LlamaSequence:
    """A `Sequence` on one line of a `KvCache`. Not thread-safe: it belongs to the thread that runs its model.

    Args:
        cache: the model's cache; None once the model is closed.
        n_context: positions that it can hold.
        can_rewind: whether the cache can drop a part of a line.
        register: called with every new sequence, so that its model can tell it that the cache is gone.
    """

    def __init__(self, cache: KvCache, n_context: int, *, can_rewind: bool, register: Callable[[LlamaSequence], None]) -> None:
        self._cache: KvCache | None = cache
        self._n_context = n_context
        self._can_rewind = can_rewind
        self._length = 0
        self._provisional = 0
        self._trouble = ""
        self.line = cache.open()
        self._register = register
        register(self)

    @property
    def length(self) -> int:
        """Committed positions."""
        self._usable()
        return self._length

    def reserve(self, n: int) -> bool:
        """Whether `n` more positions fit the context and the free cells now. Nothing is set aside: the next pass takes them."""
        cache = self._usable()
        if n < 0:
            raise EngineError(f"cannot reserve {n} positions")
        return self._length + self._provisional + n <= self._n_context and n <= cache.free

    def fork(self, length: int) -> LlamaSequence:
        """A new sequence that shares the cells of the first `length` positions; copies nothing.

        Raises EngineError where no line is free, and for a part of a sequence that cannot be rewound.
        """
        cache = self._settled()
        if not 0 <= length <= self._length:
            raise EngineError(f"cannot fork at {length} of {self._length} positions")
        if length not in (0, self._length) and not self._can_rewind:
            raise EngineError("this model cannot fork a part of a sequence", "fork it whole, or start a new one")
        copy = LlamaSequence(cache, self._n_context, can_rewind=self._can_rewind, register=self._register)
        cache.share(self.line, copy.line, length)
        copy._length = length
        return copy

    def truncate(self, length: int) -> None:
        """Drop every position from `length` on. Raises EngineError if the backend cannot."""
        self._settled()
        if not 0 <= length <= self._length:
            raise EngineError(f"cannot truncate {self._length} positions to {length}")
        if length < self._length:
            self._cut(length)
        self._length = length

    def commit(self, nodes: Seq[int]) -> None:
        """Keep the first rows of the last segment and drop its others: a chain's paths are 0, 1, .., k - 1.

        Raises EngineError without provisional rows, for anything but such a prefix, and where dropping is impossible.
        """
        self._usable()
        if not self._provisional:
            raise EngineError("there are no provisional rows to commit")
        kept = len(nodes)
        if kept > self._provisional or list(nodes) != list(range(kept)):
            raise EngineError(f"rows {list(nodes)} are not a path from the tail of a chain of {self._provisional}")
        if kept < self._provisional:
            self._cut(self._length + kept)
        self._length += kept
        self._provisional = 0

    def close(self) -> None:
        """Give the line back; quiet if the model has gone before, but never twice."""
        if self._trouble == _CLOSED:
            raise EngineError(_CLOSED)
        self._trouble = _CLOSED
        if self._cache is not None:
            self._cache.close(self.line)
            self._cache = None

    # ---- for the model -------------------------------------------------------------------------------------------------

    def belongs_to(self, cache: KvCache) -> bool:
        """Whether this line is one of that cache's; raises EngineError if it cannot be used at all."""
        return self._usable() is cache

    def check_room(self, n_rows: int) -> bool:
        """Whether the context has room for `n_rows`. Raises EngineError while rows of an earlier pass are provisional."""
        self._settled()
        return self._length + n_rows <= self._n_context

    def extended(self, n_rows: int) -> None:
        """A pass has put `n_rows` behind the tail."""
        self._usable().extend(self.line, n_rows)
        self._provisional = n_rows

    def restore(self, *, touched: bool) -> None:
        """A pass has failed: drop what it may have left behind the tail.

        Never raises. What a model that cannot be rewound has read stays read; then the sequence refuses everything but `close`.

        Args:
            touched: whether the pass may have left anything; llama.cpp cleans up itself after some failures.
        """
        self._provisional = 0
        if not touched and not self._can_rewind:
            return
        try:
            self._cut(self._length)
        except EngineError:
            self._trouble = "the sequence was lost in a failed pass, because this model cannot be rewound"

    def model_closed(self) -> None:
        """The cache is gone."""
        self._cache = None

    def _cut(self, length: int) -> None:
        if length and not self._can_rewind:
            raise EngineError("this model cannot drop positions", "its state cannot be rewound: close the sequence and start again")
        try:
            self._usable().cut(self.line, length)
        except EngineError as error:
            self._trouble = error.message  # what the cache holds now is anybody's guess
            raise

    def _settled(self) -> KvCache:
        cache = self._usable()
        if self._provisional:
            raise EngineError("the sequence has rows of an earlier pass that were neither committed nor dropped")
        return cache

    def _usable(self) -> KvCache:
        if self._trouble:
            raise EngineError(self._trouble)
        if self._cache is None:
            raise EngineError("the model of this sequence is closed")
        return self._cache
