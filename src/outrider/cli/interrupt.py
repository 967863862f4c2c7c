"""Ctrl-C while tokens come: the first one stops the answer, the second one the program."""

from __future__ import annotations

import os
import signal
import sys
from threading import Event
from types import FrameType, TracebackType
from typing import Any, Final

_LEAVE: Final = b"\x1b[0m\n"


class StopOnInterrupt:
    """While the block runs, Ctrl-C sets `cancel`; a second one ends the process as Ctrl-C usually does.

    Only the main thread may use it.

    Attributes:
        cancel: for `generate`.
        interrupted: whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.cancel = Event()
        self.interrupted = False
        self._previous: Any = None

    def __enter__(self) -> StopOnInterrupt:
        self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            if sys.stdout.isatty():  # past the buffer, which may be in use at this very moment
                os.write(sys.stdout.fileno(), _LEAVE)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        self.interrupted = True
        self.cancel.set()
