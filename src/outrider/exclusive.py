"""Keeps two threads out of one model: the second gets an error instead of a race."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from outrider.errors import EngineError


class Exclusive:
    """What only one thread may do at a time. Nobody waits: whoever comes second has made a mistake."""

    def __init__(self) -> None:
        self._lock = Lock()

    @contextmanager
    def held(self, hint: str) -> Iterator[None]:
        """Raises EngineError with this hint while another thread is inside."""
        if not self._lock.acquire(blocking=False):
            raise EngineError("another thread is running a pass of this model", hint)
        try:
            yield
        finally:
            self._lock.release()
