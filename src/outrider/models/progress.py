"""How a pull tells what it is doing: a bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import time
from typing import Final, Protocol, TextIO

from outrider.models.store import size_text

_PLAIN_STEPS: Final = 10


class Progress(Protocol):
    """What a pull reports to, all from one thread."""

    def note(self, line: str) -> None:
        """One line for the user."""
        ...

    def start(self, total: int, done: int) -> None:
        """Bytes begin to arrive; `done` of `total` are there already."""
        ...

    def update(self, done: int) -> None:
        """So many bytes are there now, the early ones included."""
        ...

    def stop(self) -> None:
        """No more bytes will arrive, for whatever reason."""
        ...


class SilentProgress:
    """Says nothing."""

    def note(self, line: str) -> None:
        """Drop the line."""

    def start(self, total: int, done: int) -> None:
        """Do nothing."""

    def update(self, done: int) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class PlainProgress:
    """A line for every tenth that has arrived.

    Args:
        stream: where lines go.
        name: what every line begins with.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._total = 0
        self._step = 0
        self._early = 0
        self._started_s = 0.0

    def note(self, line: str) -> None:
        """Print the line."""
        print(f"{self._name}: {line}", file=self._stream, flush=True)

    def start(self, total: int, done: int) -> None:
        """Begin counting."""
        self._total = total
        self._early = done
        self._step = self._step_of(done)
        self._started_s = time.monotonic()

    def update(self, done: int) -> None:
        """Print a line if another tenth is full."""
        step = self._step_of(done)
        if step > self._step:
            self._step = step
            seconds = max(time.monotonic() - self._started_s, 1e-3)
            rate = size_text(int((done - self._early) / seconds))
            self.note(f"{100 * done // self._total} % ({size_text(done)} of {size_text(self._total)}, {rate}/s)")

    def stop(self) -> None:
        """Nothing to clean up."""

    def _step_of(self, done: int) -> int:
        return _PLAIN_STEPS * done // self._total if self._total else 0


def progress_on(stream: TextIO, name: str) -> Progress:
    """The fitting kind for a stream: a bar if it is a terminal, else plain lines. `name` begins every line."""
    if not stream.isatty():
        return PlainProgress(stream, name)
    from outrider.models.terminal import TerminalProgress  # rich is not needed elsewhere, and not quick to load

    return TerminalProgress(stream, name)
