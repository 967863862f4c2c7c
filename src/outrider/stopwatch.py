"""Splits the wall time of a step into named laps; what no lap claims is the host's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Laps may be entered many times but not inside one another.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._laps: dict[str, float] = {}

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        """Add the time spent inside to the lap of this name."""
        began = self._clock()
        try:
            yield
        finally:
            self._laps[name] = self._laps.get(name, 0.0) + (self._clock() - began)

    def finish(self) -> dict[str, float]:
        """Milliseconds by lap; "host" is what is left of the wall time since construction."""
        total = self._clock() - self._began
        times = {name: seconds * 1e3 for name, seconds in self._laps.items()}
        times["host"] = max(0.0, total * 1e3 - sum(times.values()))
        return times
