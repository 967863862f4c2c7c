"""Times passes of several engines against each other, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Final, Protocol, TypeAlias

import numpy as np

from outrider.bench.plan import FILL_ROWS, YARDSTICK, CurvePlan, PassShape
from outrider.errors import CancelledError
from outrider.model import LanguageModel, Segment, Sequence

Key: TypeAlias = tuple[int, PassShape, str]
"""Context, shape of the pass, name of the engine."""

_SETTLE_S: Final = 0.02
# What one more row costs a pass, against what the pass costs anyway: only for telling the time that is left.
_ROW_SHARE: Final = 1 / 8


@dataclass(frozen=True, slots=True)
class Contender:
    """An engine that is measured.

    Attributes:
        name: "native" or "llama".
        model: loaded with room for the plan's context and rows; one sequence is enough.
    """

    name: str
    model: LanguageModel


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed pass."""

    round: int
    seconds: float


@dataclass(slots=True)
class Probes:
    """What the machine could do at best, measured once in every round. Empty lists where there is no core to measure with.

    Attributes:
        stream_gb_per_s: reading memory, in 10^9 bytes.
        int8_gmac_per_s: multiplying and adding int8, in 10^9.
    """

    stream_gb_per_s: list[float] = field(default_factory=list)
    int8_gmac_per_s: list[float] = field(default_factory=list)


class Listener(Protocol):
    """Hears how a measurement goes on."""

    def advance(self, share: float, what: str) -> None:
        """So much of the work is done, 0 to 1, and this comes next."""
        ...

    def round_ended(self) -> None:
        """The samples hold one more whole round."""
        ...


@dataclass(slots=True)
class Instruments:
    """What a measurement is made with.

    Attributes:
        clock: seconds; of the thread's CPU or of the wall.
        probe: memory and int8 limits of the machine now, in GB/s and GMAC/s; None where nothing can measure them.
        pause: called with seconds before an engine runs after another one: the other's threads may still spin at a barrier.
    """

    clock: Callable[[], float] = time.perf_counter
    probe: Callable[[], tuple[float, float] | None] = lambda: None
    pause: Callable[[float], None] = time.sleep


class CurveRun:
    """One measurement; `run` does it, and the samples so far can be read whenever it ends.

    Args:
        contenders: engines, in the order in which they are shown.
        plan: what to time.
        instruments: clock and probes.
        listener: hears of progress, in this thread.
        stop: set it to end after the pass that is running; `run` then returns, and `is_partial` says so.

    Attributes:
        samples: seconds of every timed pass.
        probes: the machine's limits.
        is_partial: whether something of the plan is missing.
    """

    def __init__(self, contenders: list[Contender], plan: CurvePlan, instruments: Instruments, listener: Listener, stop: Event) -> None:
        self._contenders = contenders
        self._plan = plan
        self._tools = instruments
        self._listener = listener
        self._stop = stop
        self._random = np.random.default_rng(0)
        self._done = 0.0
        self._running = ""
        self.samples: dict[Key, list[Sample]] = {}
        self.probes = Probes()
        self.is_partial = True

    def run(self) -> None:
        """Fill, warm up and time, one context after the other.

        Raises:
            EngineError: a pass failed; the samples before it stand.
        """
        sequences: list[Sequence] = []
        try:
            sequences.extend(contender.model.open() for contender in self._contenders)
            for number, context in enumerate(self._plan.contexts):
                if not self._measure_at(context, number, sequences):
                    return
            self.is_partial = False
        except CancelledError:
            if not self._stop.is_set():
                raise
        finally:
            for sequence in sequences:
                sequence.close()

    def _measure_at(self, context: int, number: int, sequences: list[Sequence]) -> bool:
        """All rounds at one context; False if it was stopped."""
        for contender, sequence in zip(self._contenders, sequences, strict=True):
            self._fill(contender, sequence, context)
            for shape in (YARDSTICK, *self._plan.shapes[-1:]):  # buffers grow to their size here
                if self._stop.is_set():
                    return False
                self._pass(contender, sequence, shape)
        began = time.monotonic()
        for index in self._rounds(began):
            if not self._round(index, context, sequences, lambda: self._share(number, began)):
                return False
            self._listener.round_ended()
        return True

    def _rounds(self, began: float) -> Iterator[int]:
        index = 0
        while self._is_wanted(index, time.monotonic() - began):
            yield index
            index += 1

    def _is_wanted(self, n_rounds: int, elapsed_s: float) -> bool:
        if self._plan.n_rounds is not None:
            return n_rounds < self._plan.n_rounds
        return n_rounds == 0 or elapsed_s < self._budget_s

    @property
    def _budget_s(self) -> float:
        return (self._plan.seconds or 0.0) / len(self._plan.contexts)

    def _round(self, index: int, context: int, sequences: list[Sequence], share: Callable[[], float]) -> bool:
        """One timed pass of every shape for every engine, T(1) first and last; False if it was stopped."""
        if (found := self._tools.probe()) is not None:
            self.probes.stream_gb_per_s.append(found[0])
            self.probes.int8_gmac_per_s.append(found[1])
        pairs = list(zip(self._contenders, sequences, strict=True))
        # Every other round goes the other way, so that neither an engine nor a shape always comes after the same neighbour.
        turned = -1 if index % 2 else 1
        for shape in (YARDSTICK, *self._plan.shapes[::turned], YARDSTICK):
            for contender, sequence in pairs[::turned]:
                if self._stop.is_set():
                    return False
                self._listener.advance(share(), f"round {index + 1}, context {context}")
                seconds = self._pass(contender, sequence, shape)
                self.samples.setdefault((context, shape, contender.name), []).append(Sample(index, seconds))
                self._done += _weight(shape.n_rows)
        return True

    def _fill(self, contender: Contender, sequence: Sequence, context: int) -> None:
        while sequence.length < context:
            n_rows = min(FILL_ROWS, context - sequence.length)
            self._listener.advance(self._share(0, None), f"filling the context of {contender.name} up to {context}")
            tokens = self._tokens(contender.model, n_rows)
            contender.model.evaluate([Segment(sequence, tokens, n_outputs=0)], self._stop)
            sequence.commit(range(n_rows))
            self._done += _weight(n_rows)

    def _pass(self, contender: Contender, sequence: Sequence, shape: PassShape) -> float:
        """Seconds of one pass, every announced row's best token included; the cache is as it was."""
        if self._running not in ("", contender.name):
            self._tools.pause(_SETTLE_S)
        self._running = contender.name
        tokens = self._tokens(contender.model, shape.n_rows)
        nodes = range(shape.n_rows - shape.n_outputs, shape.n_rows)
        segment = Segment(sequence, tokens, n_outputs=shape.n_outputs)
        began = self._tools.clock()
        contender.model.evaluate([segment]).argmax(nodes)
        seconds = self._tools.clock() - began
        sequence.commit(())
        return seconds

    def _tokens(self, model: LanguageModel, n: int) -> tuple[int, ...]:
        return tuple(int(token) for token in self._random.integers(0, model.capabilities.n_vocab, n))

    def _share(self, number: int, began: float | None) -> float:
        """How much is done: by the clock where seconds were given, else by the work."""
        if self._plan.seconds is None:
            return min(1.0, self._done / self._total())
        inside = min(1.0, (time.monotonic() - began) / max(self._budget_s, 1e-9)) if began is not None else 0.0
        return (number + inside) / len(self._plan.contexts)

    def _total(self) -> float:
        a_round = sum(_weight(shape.n_rows) for shape in (YARDSTICK, *self._plan.shapes, YARDSTICK))
        rounds = (self._plan.n_rounds or 0) * len(self._plan.contexts)
        full, rest = divmod(max(self._plan.contexts), FILL_ROWS)
        filling = full * _weight(FILL_ROWS) + (_weight(rest) if rest else 0.0)
        return (a_round * rounds + filling) * len(self._contenders)


def _weight(n_rows: int) -> float:
    return 1 + n_rows * _ROW_SHARE
