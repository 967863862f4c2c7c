"""Fixtures of the models room: a clean models directory, settings of the outside world switched off, a recorder of progress."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.models.fake_hub import FakeHub, running


@dataclass
class Recorder:
    """Progress that keeps what it was told."""

    lines: list[str] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    stops: int = 0

    def note(self, line: str) -> None:
        self.lines.append(line)

    def start(self, total: int, done: int) -> None:
        self.totals.append(total)
        self.updates.append(done)

    def update(self, done: int) -> None:
        self.updates.append(done)

    def stop(self) -> None:
        self.stops += 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def progress() -> Recorder:
    return Recorder()


@pytest.fixture(autouse=True)
def models_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models directory of the test's own; nothing that this machine sets for pip, the hub or proxies is in force."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "HF_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    settings = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple/",  # nobody answers at the discard port
        "PIP_RETRIES": "0",
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path / "hf-home"),
        "NO_PROXY": "127.0.0.1,localhost",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    directory = tmp_path / "models"
    monkeypatch.setenv("OUTRIDER_MODELS_DIR", str(directory))
    return directory


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with running(FakeHub()) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub
