"""A sign of life on a terminal while models load, out of the way of whatever a pull has to say."""

from __future__ import annotations

from types import TracebackType
from typing import Final, TextIO

from outrider.cli.display import DIM, RESET
from outrider.cli.output import tell, wants_style
from outrider.models.progress import Progress, progress_on

_ERASE: Final = "\x1b[K"


class Waiting:
    """A dimmed line that goes away again, in a `with` block; nothing where there is no terminal.

    Args:
        stream: standard error.
        text: what is waited for.
    """

    def __init__(self, stream: TextIO, text: str) -> None:
        self._stream = stream
        dim, reset = (DIM, RESET) if wants_style(stream) else ("", "")
        self._line = f"{dim}{text}{reset}"

    def __enter__(self) -> Waiting:
        self.show()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.hide()

    def show(self) -> None:
        """Write the line; the cursor stays at its beginning."""
        if self._stream.isatty():
            tell(self._line, end="\r")

    def hide(self) -> None:
        """Erase it."""
        if self._stream.isatty():
            tell(_ERASE, end="")

    def progress(self, name: str) -> Progress:
        """The report of a pull, which hides the line while it has something to say."""
        return _Aside(self, progress_on(self._stream, name))


class _Aside:
    """A Progress that takes the waiting line away first."""

    def __init__(self, waiting: Waiting, inner: Progress) -> None:
        self._waiting = waiting
        self._inner = inner

    def note(self, line: str) -> None:
        self._waiting.hide()
        self._inner.note(line)

    def start(self, total: int, done: int) -> None:
        self._waiting.hide()
        self._inner.start(total, done)

    def update(self, done: int) -> None:
        self._inner.update(done)

    def stop(self) -> None:
        self._inner.stop()
        self._waiting.show()
