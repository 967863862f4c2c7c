"""Python that native code calls back into, in a way that survives Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Event
from typing import Any


class CancelWatch:
    """What the abort callback asks. Apart from the model, so that the callback holds no reference to it.

    Attributes:
        event: of the pass that is running, None without one.
    """

    def __init__(self) -> None:
        self.event: Event | None = None

    def is_set(self, _: object) -> bool:
        """Whether the running pass should stop."""
        return self.event is not None and self.event.is_set()


class GuardedCall:
    """A one-argument function for a ctypes callback that never raises into C.

    Python runs signal handlers on entry to the next Python function of the main thread. While a pass runs, that is the
    callback, and ctypes swallows what a callback raises: a KeyboardInterrupt would be printed and lost, and the pass would go
    on. A generator that is resumed inside its `try` has no such unguarded entry, so `enter` (a method of C) catches everything.

    Args:
        answer: called with the native argument; its result is the callback's result.
        on_error: the result once `answer` (or a signal handler) has raised.

    Attributes:
        enter: what ctypes wraps.
        error: what was raised inside the callback, to be raised again once native code has returned; None if nothing was.
    """

    def __init__(self, answer: Callable[[Any], bool], on_error: bool) -> None:
        self._answer = answer
        self._on_error = on_error
        self.error: BaseException | None = None
        loop = self._serve()
        next(loop)
        self.enter: Callable[[Any], bool] = loop.send

    def take_error(self) -> BaseException | None:
        """The pending error, which is forgotten here."""
        error, self.error = self.error, None
        return error

    def _serve(self) -> Generator[bool, Any, None]:
        result = self._on_error
        while True:
            try:
                argument = yield result
                result = self._on_error if self.error is not None else self._answer(argument)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  # nothing may unwind through C; the caller raises it again
                self.error = error
                result = self._on_error
