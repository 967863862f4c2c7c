"""How far a long measurement is, and how long it will take: a line that renews itself on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TextIO

from outrider.cli.output import one_line

_ERASE: Final = "\r\x1b[K"
_RENEW_S: Final = 0.2
_PLAIN_STEPS: Final = 10
_EARLY_S: Final = 2.0  # before that, any estimate is a guess


class TimeLeft:
    """Shows a share, what comes next, and the time that is left by what has passed.

    Args:
        stream: standard error.
        clock: seconds.
        columns: of the terminal, to cut the line.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic, columns: int = 80) -> None:
        self._stream = stream
        self._clock = clock
        self._columns = columns
        self._is_terminal = stream.isatty()
        self._began = clock()
        self._shown_at = self._began - _RENEW_S
        self._step = 0

    def advance(self, share: float, what: str) -> None:
        """So much is done, 0 to 1."""
        now = self._clock()
        if self._is_terminal:
            if now - self._shown_at >= _RENEW_S:
                self._shown_at = now
                self._say(f"{_ERASE}{self._line(share, what, now)[: self._columns - 1]}")
        elif (step := int(share * _PLAIN_STEPS)) > self._step:
            self._step = step
            self._say(f"{self._line(share, what, now)}\n")

    def hide(self) -> None:
        """Take the line away."""
        if self._is_terminal:
            self._say(_ERASE)

    def _line(self, share: float, what: str, now: float) -> str:
        elapsed = now - self._began
        left = f", {duration(elapsed / share * (1 - share))} left" if share > 0 and elapsed >= _EARLY_S else ""
        return one_line(f"{share * 100:.0f} %{left}: {what}")

    def _say(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def duration(seconds: float) -> str:
    """A time for people, rounded up to seconds."""
    whole = int(-(-seconds // 1))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
