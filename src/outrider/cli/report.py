"""Statistics on standard error, under the answer."""

from __future__ import annotations

import os
import sys

from outrider.cli.display import DIM, RESET
from outrider.cli.output import tell, wants_style
from outrider.cli.statistics import statistics
from outrider.result import GenerationResult
from outrider.text.visible import visible

_WIDTH = 100


def print_statistics(result: GenerationResult) -> None:
    """All of them, after an empty line."""
    print_dimmed(["", *statistics(result, _width() - 1)])


def print_dimmed(lines: list[str]) -> None:
    """Lines on standard error, dimmed on a terminal."""
    dim, reset = (DIM, RESET) if wants_style(sys.stderr) else ("", "")
    tell("\n".join(f"{dim}{visible(line)}{reset}" if line else line for line in lines))


def _width() -> int:
    try:
        return min(os.get_terminal_size(sys.stderr.fileno()).columns or _WIDTH, _WIDTH)
    except (OSError, ValueError):  # no terminal, or no file at all
        return _WIDTH
