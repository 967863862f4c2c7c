"""One KV cache line of the native engine."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Final

from outrider.errors import EngineError, OutOfMemoryError
from outrider.native._core import Engine

_CLOSED: Final = "the sequence is closed"


class NativeSequence:
    """A `Sequence`: pages of positions in the core, shared between forks until one of them writes.

    Not thread-safe: it belongs to the thread that runs its model. Made by `NativeModel.open` and `fork`.
    """

    def __init__(self, engine: Engine, line: int, register: Callable[[NativeSequence], None]) -> None:
        self._engine: Engine | None = engine
        self._line = line
        self._provisional = 0
        self._trouble = _CLOSED
        self._register = register  # its model must be able to tell every sequence that the cache is gone
        register(self)

    @property
    def length(self) -> int:
        """Committed positions."""
        return self._usable().length(self._line)

    @property
    def line(self) -> int:
        """Number of the cache line in the core."""
        return self._line

    def reserve(self, n: int) -> bool:
        """Whether `n` more positions fit; makes room for them. Raises OutOfMemoryError where the context has room but memory has not."""
        engine = self._usable()
        if n < 0:
            raise EngineError(f"cannot reserve {n} positions")
        try:
            return engine.reserve(self._line, self._provisional + n)
        except MemoryError:
            raise OutOfMemoryError(f"no memory for {n} more positions of the KV cache", "use a shorter context") from None

    def fork(self, length: int) -> NativeSequence:
        """A new sequence that shares the first `length` positions; copies nothing until one of the two writes.

        Raises EngineError where no line is free.
        """
        engine = self._settled()
        try:
            return NativeSequence(engine, engine.fork(self._line, length), self._register)
        except (ValueError, RuntimeError) as error:
            raise EngineError(str(error)) from None

    def truncate(self, length: int) -> None:
        """Drop every position from `length` on; takes no time."""
        engine = self._settled()
        try:
            engine.truncate(self._line, length)
        except ValueError as error:
            raise EngineError(str(error)) from None

    def commit(self, nodes: Seq[int]) -> None:
        """Keep a path of the last segment's rows and drop its others. Raises EngineError for anything but a path."""
        engine = self._usable()
        if not self._provisional:
            raise EngineError("there are no provisional rows to commit")
        try:
            engine.commit(self._line, list(nodes))
        except ValueError as error:
            raise EngineError(str(error)) from None
        self._provisional = 0

    def close(self) -> None:
        """Give the line back; quiet if the model has gone before, but never twice."""
        if self._line < 0:
            raise EngineError(_CLOSED)
        if self._engine is not None:
            self._engine.close(self._line)
        self._engine, self._line = None, -1

    # ---- for the model -------------------------------------------------------------------------------------------------

    def check_ready(self, engine: Engine) -> None:
        """Raises EngineError unless a pass of this engine may add rows."""
        if self._settled() is not engine:
            raise EngineError("the sequence belongs to another model")

    def extended(self, n_rows: int) -> None:
        """A pass has put `n_rows` behind the tail."""
        self._provisional = n_rows

    def model_closed(self) -> None:
        """The cache is gone."""
        self._engine = None
        self._trouble = "the model of this sequence is closed"

    def _settled(self) -> Engine:
        engine = self._usable()
        if self._provisional:
            raise EngineError("the sequence has rows of an earlier pass that were neither committed nor dropped")
        return engine

    def _usable(self) -> Engine:
        if self._engine is None:
            raise EngineError(self._trouble)
        return self._engine
