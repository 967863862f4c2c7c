"""The command line in this process, with a pair without weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from outrider import loading
from outrider.cli.main import main
from tests.cli.fakes import fake_load


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OUTRIDER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(loading, "load", fake_load)


@pytest.fixture
def outrider(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """`outrider("run", "-m", "t", ...)` runs the command line on the fake pair."""

    def run(*words: str) -> Done:
        capsys.readouterr()
        code = main(words)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run
