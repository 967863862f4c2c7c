"""Processes that end or split while the core has threads, or a pass in one of Python's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PREAMBLE = """
import os, sys, threading, time
from pathlib import Path
from outrider.errors import CancelledError
from outrider.model import Segment
from outrider.native import NativeOptions, load

def fresh():
    return load(Path(sys.argv[1]), NativeOptions(n_context=1024, n_sequences=2, threads=3))

def logits(model, tokens, cancel=None):
    sequence = model.open()
    try:
        return model.evaluate([Segment(sequence, tokens)], cancel).rows([len(tokens) - 1]).tobytes()
    finally:
        sequence.close()
"""

FORK = """
model = fresh()
expected = logits(model, (1, 2, 3))
reader, writer = os.pipe()
child = os.fork()
if not child:
    os.write(writer, b"y" if logits(model, (1, 2, 3)) == expected else b"n")
    if sys.argv[2] == "close":
        model.close()
    sys.exit(0)
assert logits(model, (1, 2, 3)) == expected
assert os.waitpid(child, 0)[1] == 0
assert os.read(reader, 1) == b"y"
assert logits(model, (1, 2, 3)) == expected
"""

FORK_WHILE_COMPUTING = """
model, other = fresh(), fresh()
expected = logits(other, (1, 2, 3))
stop = threading.Event()
def work():
    while not stop.is_set():
        logits(model, tuple(range(200)))
thread = threading.Thread(target=work)
thread.start()
time.sleep(0.05)
for _ in range(5):
    child = os.fork()
    if not child:
        assert logits(other, (1, 2, 3)) == expected
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
"""

EXIT_DURING = """
model = fresh()
def work():
    while True:
        try:
            {call}
        except CancelledError:  # how a pass learns that the interpreter is leaving
            pass
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""

CALLS = {
    "a pass": "logits(model, tuple(range(200)))",
    "a pass that can be cancelled": "logits(model, tuple(range(200)), threading.Event())",
    "loading": "fresh().close()",
}


def run(script: str, *arguments: str | Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PREAMBLE + script, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("end", ["close", "exit"])
def test_a_forked_child_computes_with_threads_of_its_own(mixed_file: Path, end: str) -> None:
    run(FORK, mixed_file, end)


def test_a_fork_during_another_thread_s_pass_leaves_both_working(mixed_file: Path) -> None:
    run(FORK_WHILE_COMPUTING, mixed_file)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_leaving_while_a_daemon_thread_computes_is_no_crash(mixed_file: Path, call: str) -> None:
    run(EXIT_DURING.replace("{call}", call), mixed_file)
