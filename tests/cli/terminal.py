"""A real pseudo-terminal with the command line in it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import IO

ROOT = Path(__file__).parent.parent.parent
FAKE = Path(__file__).with_name("fakes.py")
PATIENCE_S = 60  # only a guard against hanging
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
CTRL_C, CTRL_D = "\x03", "\x04"


def environment(**more: str) -> dict[str, str]:
    """A clean environment for a process of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTRIDER_", "NO_COLOR", "PYTHONUNBUFFERED"))}
    return kept | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "TERM": "xterm-256color", "PYTHONWARNINGS": "error"} | more


class Terminal:
    """Runs `outrider WORDS` with the fake pair on a terminal of its own; use it in a `with` block.

    Args:
        words: the command line.
        columns: width of the terminal.
        stdout: where standard output goes instead of the terminal.
        more: environment variables.
    """

    def __init__(self, *words: str, columns: int = 80, stdout: int | IO[bytes] | None = None, **more: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.raw = ""
        self.process = subprocess.Popen(
            [sys.executable, str(FAKE), *words],
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env=environment(**more),
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)

    @property
    def text(self) -> str:
        """What was shown so far, without colours."""
        return _STYLE.sub("", self.raw).replace("\r\n", "\n")

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def wait_for(self, text: str, count: int = 1) -> None:
        """Read until `text` was shown `count` times."""
        until = time.monotonic() + PATIENCE_S
        while self.text.count(text) < count:
            if not self._read(until):
                raise AssertionError(f"{text!r} was never shown; this was: {self.text!r}")

    def finish(self) -> int:
        """Read to the end; the exit code (negative for a signal)."""
        until = time.monotonic() + PATIENCE_S
        while self._read(until):
            pass
        return self.process.wait(PATIENCE_S)

    def poll(self, patience_s: float) -> int | None:
        """The exit code, if the process ends soon."""
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return None

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing came any more; this was shown: {self.text!r}")
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux's way to say that the other side closed
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)
