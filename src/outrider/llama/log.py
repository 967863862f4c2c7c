"""What llama.cpp says while it works: kept for error messages, never printed."""

from __future__ import annotations

import contextlib
import logging
import re
from collections import deque
from typing import Final

_LOGGER = logging.getLogger("outrider.llama")

_WARNING: Final = 3  # GGML_LOG_LEVEL_WARN
_ERROR: Final = 4  # GGML_LOG_LEVEL_ERROR
_CONTINUED: Final = 5  # GGML_LOG_LEVEL_CONT: more of the line before

_FUNCTION_PREFIX = re.compile(r"^\w+: ")


class LogCapture:
    """The last warnings and errors of llama.cpp and ggml; everything else goes to Python's logger at DEBUG.

    llama.cpp has one log for the whole process, so two models loaded at the same time mix their lines. Thread-safe: native
    threads write, any thread reads.

    Args:
        n_kept: how many lines are kept.
    """

    def __init__(self, n_kept: int = 32) -> None:
        self._lines: deque[tuple[int, str]] = deque(maxlen=n_kept)

    def write(self, level: int, text: bytes) -> None:
        """Take one message, or a piece of one; `level` is a GGML_LOG_LEVEL."""
        line = text.decode("utf-8", errors="replace").rstrip("\n")
        _LOGGER.debug("%s", line)
        if level in (_WARNING, _ERROR) and line:
            self._lines.append((level, line))
        elif level == _CONTINUED and line:
            with contextlib.suppress(IndexError):  # nothing kept that it could continue
                kept_level, kept = self._lines.pop()
                self._lines.append((kept_level, kept + line))

    def clear(self) -> None:
        """Forget everything, before a call whose messages are wanted."""
        self._lines.clear()

    def errors(self) -> list[str]:
        """Error lines since `clear`, oldest first, without the names of the C functions that wrote them."""
        return [_FUNCTION_PREFIX.sub("", line).strip() for level, line in tuple(self._lines) if level == _ERROR]

    def reason(self) -> str:
        """The line that says why something failed, or a sentence that there is none.

        The first error line is the cause; those after it are callers that pass it on.
        """
        errors = self.errors()
        return errors[0] if errors else "llama.cpp gave no reason"
