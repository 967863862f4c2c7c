"""What a person types, or a script sends, message by message."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final, TextIO

from outrider.cli.output import write
from outrider.errors import RequestError
from outrider.text.visible import visible

COMMANDS: Final = ("/help", "/reset", "/stats", "/exit", "/quit")
QUOTES: Final = '"""'
_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")


class Messages:
    """Iterates over messages until the input ends. Empty ones are skipped.

    A line that ends in a backslash goes on in the next one; a line that begins with three quotation marks goes on to a line
    that ends with three. On a terminal the line can be edited, and Ctrl-C drops what was typed. Elsewhere each message is
    echoed after its label, so that the output reads as a conversation; without a terminal to type on, Ctrl-C raises
    KeyboardInterrupt.

    Args:
        source: standard input.
        sink: standard output.
        label: written before each message; may hold colour escapes.
        is_silent: neither labels nor echo.
    """

    def __init__(self, source: TextIO | None, sink: TextIO, label: str, *, is_silent: bool = False) -> None:
        self._source = source
        self._sink = sink
        self._is_silent = is_silent
        self.is_interactive = source is not None and source.isatty() and sink.isatty()
        self._label = label
        if self.is_interactive:
            with contextlib.suppress(ImportError):  # not every Python has it; the line is then just not editable
                import readline  # noqa: F401  # importing it is what makes `input` editable
            self._label = _STYLE.sub("\x01\\1\x02", label)  # readline must not count these

    def __iter__(self) -> Iterator[str]:
        while True:
            try:
                message = self._message()
            except KeyboardInterrupt:
                if self._source is None or not self._source.isatty():  # nobody types here: the program is meant
                    raise
                self._note("\n")
                continue
            except EOFError:
                self._note("\n" if self.is_interactive else "")
                return
            except UnicodeDecodeError as error:
                raise RequestError("standard input is no UTF-8 text", "convert it to UTF-8") from error
            if message.strip():
                if not self.is_interactive:
                    self._note(f"{self._label}{visible(message) if self._sink.isatty() else message}\n")
                yield message

    def _message(self) -> str:
        line = self._line(self._label)
        if line is None:
            raise EOFError
        if line.startswith(QUOTES):
            return self._quoted(line.removeprefix(QUOTES))
        lines = []
        while line is not None and line.endswith("\\"):
            lines.append(line[:-1])
            line = self._line("... ")
        return "\n".join([*lines, line or ""])

    def _quoted(self, line: str | None) -> str:
        lines = []
        while line is not None and not line.endswith(QUOTES):
            lines.append(line)
            line = self._line("... ")
        return "\n".join([*lines, (line or "").removesuffix(QUOTES)]).strip("\n")

    def _line(self, label: str) -> str | None:
        """The next line, or None at the end of the input."""
        if self._source is None:
            return None
        if self.is_interactive and not self._is_silent:
            try:
                return input(label)
            except EOFError:
                return None
        line = self._source.readline()
        return line.removesuffix("\n") if line else None

    def _note(self, text: str) -> None:
        if not self._is_silent:
            write(self._sink, text)
