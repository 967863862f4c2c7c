"""Tokens on a screen or in a pipe, as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, TextIO

from outrider.cli.output import write
from outrider.errors import OutriderError
from outrider.session import TokenEvent
from outrider.text.visible import visible
from outrider.types import TokenKind

RESET: Final = "\x1b[0m"
DIM: Final = "\x1b[2m"
_STYLES: Final = {TokenKind.ACCEPTED: "\x1b[32m", TokenKind.RECOVERED: "\x1b[33m", TokenKind.BONUS: "\x1b[36m", TokenKind.PLAIN: ""}
_REJECTED: Final = "\x1b[2;9m"  # dimmed, struck through
_NAMES: Final = (
    ("plain", _STYLES[TokenKind.PLAIN]),
    ("accepted draft", _STYLES[TokenKind.ACCEPTED]),
    ("recovered", _STYLES[TokenKind.RECOVERED]),
    ("bonus", _STYLES[TokenKind.BONUS]),
)


@dataclass(frozen=True, slots=True)
class Look:
    """How tokens are shown.

    Attributes:
        color: by who proposed them.
        rejected: refused draft tokens too; needs colour.
        safe: control characters in the text become pictures (on terminals, and with colour).
    """

    color: bool = False
    rejected: bool = False
    safe: bool = False


def legend(look: Look) -> str:
    """One line that explains the colours, in docs/glossary.md's words."""
    shown = [*_NAMES, *([("rejected", _REJECTED)] if look.rejected else [])]
    return "tokens: " + ", ".join(f"{style}{name}{RESET if style else ''}" for name, style in shown)


class TokenPrinter:
    """Writes the tokens of one answer; `show` is the callback for `generate`, called inside a `with` block.

    `show` never raises: when the output breaks, `on_broken` is called once, and the block raises at its end. The end of the
    block also ends the line and leaves the terminal as it was, whatever happened.

    Args:
        stream: where the text goes.
        look: how.
        on_broken: stops the generation.
        is_mid_line: something stands on the line already.
    """

    def __init__(self, stream: TextIO, look: Look, on_broken: Callable[[], None], *, is_mid_line: bool = False) -> None:
        self._stream = stream
        self._look = look
        self._on_broken = on_broken
        self._style = ""
        self._ends_line = not is_mid_line
        self._broken: BrokenPipeError | OutriderError | None = None

    def __enter__(self) -> TokenPrinter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._write(self._styled("", "") + ("" if self._ends_line else "\n"))
        if error is None and self._broken is not None:
            raise self._broken

    def show(self, event: TokenEvent) -> None:
        """Show one token, after the refused ones before it."""
        parts = []
        if self._look.rejected and event.rejected:
            parts.append(self._styled("".join(event.rejected).replace("\n", "↵"), _REJECTED))
        if event.text:
            parts.append(self._styled(event.text, _STYLES[event.token.kind] if event.token else ""))
            self._ends_line = event.text.endswith("\n")
        if parts:
            self._write("".join(parts))

    def _styled(self, text: str, style: str) -> str:
        text = visible(text) if self._look.safe else text
        if not self._look.color or style == self._style:
            return text
        change = (RESET if self._style else "") + style
        self._style = style
        return change + text

    def _write(self, text: str) -> None:
        if self._broken is not None or not text:
            return
        try:
            write(self._stream, text)
        except (BrokenPipeError, OutriderError) as error:
            self._broken = error
            self._on_broken()
