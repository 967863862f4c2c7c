"""Progress of a pull on a terminal."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from outrider.text.visible import visible


class TerminalProgress:
    """A bar with size, speed and remaining time.

    Args:
        stream: a terminal.
        name: what every line begins with.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._console = Console(file=stream, highlight=False)
        self._name = visible(name)
        self._label = Text(f"{visible(name)}: ", style="bold")
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def note(self, line: str) -> None:
        """Print the line, above the bar if there is one."""
        self._console.print(self._label, end="")
        self._console.print(visible(line), markup=False, soft_wrap=True)

    def start(self, total: int, done: int) -> None:
        """Show the bar."""
        columns = (BarColumn(), TaskProgressColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(compact=True))
        self._bar = Progress(TextColumn("{task.description}", markup=False), *columns, console=self._console, transient=True)
        self._task = self._bar.add_task(self._name, total=total, completed=done)
        self._bar.start()

    def update(self, done: int) -> None:
        """Move the bar."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
