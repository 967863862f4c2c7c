"""`outrider`: parses the command line, runs a command, and turns every error into one line, a hint and an exit code.

With --json an error is a document on standard output as well: {"error": {"type", "message", "hint", "exit_code"}}.
OUTRIDER_DEBUG=1 shows tracebacks.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from outrider.cli.output import drop, report, report_unexpected, tell, write
from outrider.cli.parser import build_parser
from outrider.errors import EXIT_CODES, CancelledError, ConfigError, OutOfMemoryError, OutriderError

__all__ = ["build_parser", "main"]

_BROKEN_PIPE: Final = 141  # what a shell shows for a program that SIGPIPE ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (sys.argv by default) and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    _prepare_streams()
    try:
        return _explained(words)
    except KeyboardInterrupt:
        tell("\noutrider: interrupted")
        return EXIT_CODES[CancelledError]
    except BrokenPipeError:
        drop(sys.stdout)
        return _BROKEN_PIPE


def _explained(words: list[str]) -> int:
    """Run it, and turn every error into its lines and its exit code."""
    as_json = _wants_document(words)
    try:
        return _dispatch(words)
    except BrokenPipeError:
        raise
    except OutriderError as error:
        _trace(error)
        return report(error, as_json=as_json)
    except MemoryError as error:
        _trace(error)
        return report(OutOfMemoryError("memory ran out", "take a smaller model or a shorter context (-c)"), as_json=as_json)
    except Exception as error:  # noqa: BLE001  # the last resort: a user gets one line, and OUTRIDER_DEBUG the rest
        _trace(error)
        return report_unexpected(error, as_json=as_json)


def _wants_document(words: list[str]) -> bool:
    """Whether standard output was promised a document; of `bench`, --json may also name a file."""
    if words[:1] == ["bench"]:
        return "--json=-" in words or ("--json", "-") in pairwise(words)
    return "--json" in words


def _dispatch(words: list[str]) -> int:
    parser = build_parser()
    if not words:
        parser.print_help(sys.stderr)
        return EXIT_CODES[ConfigError]
    try:
        args = parser.parse_args(words)
        code: int = args.func(args)
    except SystemExit as stop:  # --help and --version
        code = int(stop.code or 0)
    write(sys.stdout, "")  # what a command has left in the buffer
    return code


def _prepare_streams() -> None:
    """Make standard output and error exist, and able to take any character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as in `outrider ... >&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # lives as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _trace(error: BaseException) -> None:
    if os.environ.get("OUTRIDER_DEBUG"):
        traceback.print_exception(error)
