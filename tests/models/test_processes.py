"""Several processes, and processes that die."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from outrider.models.partial import arrived_bytes
from tests.models.fake_hub import FakeHub
from tests.models.noise import noise

CONTENT = noise(4, 400_000)
SUM = hashlib.sha256(CONTENT).hexdigest()
NAME = "hf:owner/repo/model.gguf"
PULL = f"""
import sys
from outrider.models.progress import PlainProgress
from outrider.models.targets import pull_model
try:
    pull_model({NAME!r}, PlainProgress(sys.stderr, "it"))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture(autouse=True)
def _content(hub: FakeHub) -> None:
    hub.put("owner/repo/model.gguf", CONTENT)


@pytest.fixture
def final(models_directory: Path) -> Path:
    return models_directory / "hf" / "owner" / "repo" / "model.gguf"


def start() -> subprocess.Popen[str]:
    source = str(Path(__file__).parents[2] / "src")
    code = f"import sys; sys.path.insert(0, {source!r}){PULL}"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def test_two_processes_pull_one_file_once(hub: FakeHub, final: Path) -> None:
    hub.delay_s = 0.05
    outcomes = [finish(process) for process in [start(), start()]]
    assert [code for code, _ in outcomes] == [0, 0], outcomes
    assert final.read_bytes() == CONTENT
    assert len(hub.downloads()) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_process_that_ends_half_way_leaves_a_pull_that_goes_on(hub: FakeHub, final: Path, number: int, code: int) -> None:
    hub.allowance, hub.hold = 150_000, threading.Event()
    process = start()
    while process.poll() is None and not arrived_bytes(final, SUM, len(CONTENT)):
        time.sleep(0.01)
    process.send_signal(number)
    time.sleep(0.05)
    hub.hold.set()
    assert finish(process)[0] == code
    assert not final.exists()
    kept = arrived_bytes(final, SUM, len(CONTENT))
    assert 0 < kept <= 150_000
    hub.allowance, hub.hold = None, None
    assert finish(start())[0] == 0
    assert final.read_bytes() == CONTENT
    assert hub.downloads()[-1] == f"bytes={kept}-399999"
    assert sorted(path.name for path in final.parent.iterdir() if not path.name.startswith(".")) == ["model.gguf"]
