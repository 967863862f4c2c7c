"""A language model that the native core runs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence as Seq
from threading import Event

from outrider.errors import CacheFullError, CancelledError, EngineError, OutOfMemoryError
from outrider.exclusive import Exclusive
from outrider.model import Capabilities, Segment
from outrider.native._core import Engine
from outrider.native.evaluation import NativeEvaluation
from outrider.native.sequence import NativeSequence


class NativeModel:
    """A `LanguageModel` over one core engine; made by `load`.

    One thread at a time: a second one inside `evaluate` or `close` gets an EngineError instead of a race. A target and a draft
    model may run on different threads, each with its own pool; the GIL is released while they compute.

    Args:
        engine: the core; owned from here on.
        capabilities: as decided when loading.
    """

    def __init__(self, engine: Engine, capabilities: Capabilities) -> None:
        self._engine: Engine | None = engine
        self._capabilities = capabilities
        self._busy = Exclusive()
        self._generation = 0
        self._sequences: weakref.WeakSet[NativeSequence] = weakref.WeakSet()

    @property
    def capabilities(self) -> Capabilities:
        """What this model can do."""
        return self._capabilities

    @property
    def engine(self) -> Engine:
        """The core, for reports: instruction set, threads, bytes. Raises EngineError after `close`."""
        if self._engine is None:
            raise EngineError("the model is closed")
        return self._engine

    def open(self) -> NativeSequence:
        """An empty sequence. Raises EngineError when all are in use, or after `close`."""
        engine = self.engine
        try:
            sequence = NativeSequence(engine, engine.open(), self._sequences.add)
        except RuntimeError as error:
            raise EngineError(str(error), "close one, or load the model with more sequences") from None
        return sequence

    def evaluate(self, segments: Seq[Segment], cancel: Event | None = None) -> NativeEvaluation:
        """Run every segment's rows in one pass, chains and trees; see the port.

        Args:
            segments: at most one per sequence; `capabilities.max_rows` rows over all of them.
            cancel: looked at before the pass and after every layer, but not more often than every 10 ms.

        Raises:
            CacheFullError, CancelledError, OutOfMemoryError, EngineError: as in the port. Every sequence is as it was before.
        """
        with self._busy.held("one thread at a time"):
            engine = self.engine
            rows = [self._row(engine, segment) for segment in segments]
            self._check_rows(rows)
            if cancel is not None and cancel.is_set():
                raise CancelledError("the pass was cancelled before it began")
            self._generation += 1
            _run(engine, rows, cancel)
            return self._finish(engine, segments)

    def close(self) -> None:
        """Free the model. Its sequences and evaluations raise from here on."""
        with self._busy.held("cancel it and wait before closing"):
            if self._engine is None:
                raise EngineError("the model is closed")
            self._generation += 1
            for sequence in tuple(self._sequences):
                sequence.model_closed()
            self._engine = None

    def _row(self, engine: Engine, segment: Segment) -> tuple[int, list[int], list[int]]:
        sequence = segment.sequence
        if not isinstance(sequence, NativeSequence):
            raise EngineError("the sequence belongs to another model")
        sequence.check_ready(engine)
        n_rows = len(segment.tokens)
        if segment.n_outputs is not None and not 0 <= segment.n_outputs <= n_rows:
            raise EngineError(f"{segment.n_outputs} outputs of {n_rows} rows were asked for")
        parents = segment.parents or tuple(range(-1, n_rows - 1))
        return sequence.line, list(segment.tokens), list(parents)

    def _check_rows(self, rows: list[tuple[int, list[int], list[int]]]) -> None:
        n_rows = sum(len(tokens) for _, tokens, _ in rows)
        if n_rows > self._capabilities.max_rows:
            raise EngineError(f"{n_rows} rows are more than one pass takes", f"at most {self._capabilities.max_rows}")

    def _finish(self, engine: Engine, segments: Seq[Segment]) -> NativeEvaluation:
        announced: list[bool] = []
        for segment in segments:
            n_rows = len(segment.tokens)
            n_outputs = n_rows if segment.n_outputs is None else segment.n_outputs
            announced += [row >= n_rows - n_outputs for row in range(n_rows)]
            if isinstance(segment.sequence, NativeSequence):
                segment.sequence.extended(n_rows)
        generation = self._generation
        return NativeEvaluation(engine, announced, lambda: self._generation == generation)


def _run(engine: Engine, rows: list[tuple[int, list[int], list[int]]], cancel: Event | None) -> None:
    """One pass of the core; its exceptions as ours."""
    try:
        finished = engine.evaluate(rows, None if cancel is None else cancel.is_set)
    except MemoryError:
        raise OutOfMemoryError("no memory for the pass", "use a shorter context or fewer rows") from None
    except IndexError as error:  # std::out_of_range: no room in the context
        raise CacheFullError(str(error), "use a longer context") from None
    except (ValueError, RuntimeError) as error:
        raise EngineError(str(error)) from None
    if not finished:
        raise CancelledError("the pass was cancelled")
