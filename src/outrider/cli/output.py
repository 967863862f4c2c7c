"""What every command writes in the same way: documents, errors and notes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, Final, TextIO

from outrider.errors import OutriderError, exit_code
from outrider.text.visible import visible

UNEXPECTED_EXIT_CODE: Final = 1


def print_json(document: dict[str, Any]) -> None:
    """One document, on one line of standard output.

    Raises:
        BrokenPipeError: nobody reads it.
        OutriderError: it cannot be written.
    """
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    write(sys.stdout, json.dumps(document, ensure_ascii=not is_unicode, allow_nan=False) + "\n")


def write(stream: TextIO, text: str) -> None:
    """Write and flush. Raises as `print_json` does."""
    with writing(stream):
        stream.write(text)


@contextlib.contextmanager
def writing(stream: TextIO) -> Iterator[None]:
    """For what writes by itself: flushes in the end. Raises as `print_json` does."""
    try:
        yield
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop(stream)
        raise OutriderError(f"the output cannot be written: {error.strerror}", "write to a place with room") from error


def drop(stream: TextIO) -> None:
    """Let nothing more be written to a stream that takes nothing, not even when Python leaves and empties its buffers."""
    with contextlib.suppress(OSError, ValueError):  # no file behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error."""
    sys.stderr.write(text + end)
    sys.stderr.flush()


def note(text: str) -> None:
    """One line on standard error about something that was decided or ignored."""
    tell(f"outrider: note: {one_line(text)}")


def report(error: OutriderError, *, as_json: bool) -> int:
    """An error and its hint on standard error; with --json it is also the document on standard output. Returns its exit code."""
    message = str(error).removesuffix(f" ({error.hint})")
    return _report(type(error).__name__, message, error.hint, exit_code(error), as_json=as_json)


def report_unexpected(error: Exception, *, as_json: bool) -> int:
    """The same for an exception that nobody foresaw."""
    name = type(error).__name__
    hint = "this is a bug in Outrider: please report it, with what OUTRIDER_DEBUG=1 prints"
    return _report(name, f"unexpected {name}: {error}", hint, UNEXPECTED_EXIT_CODE, as_json=as_json)


def _report(kind: str, message: str, hint: str, code: int, *, as_json: bool) -> int:
    tell(f"outrider: error: {one_line(message)}")
    if hint:
        tell(f"hint: {one_line(hint)}")
    if as_json:
        with contextlib.suppress(OSError, OutriderError):  # standard error has the same, and the exit code stays
            print_json({"error": {"type": kind, "message": message, "hint": hint, "exit_code": code}})
    return code


def one_line(text: str) -> str:
    """The same words on one line, harmless for a terminal."""
    return visible(" ".join(text.split()))


def wants_style(stream: TextIO) -> bool:
    """Whether labels on this stream may be dimmed: it is a terminal, and NO_COLOR (https://no-color.org) is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR")
