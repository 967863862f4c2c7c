"""Every error as one line, a hint and its exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pytest

from outrider import errors
from outrider.cli import main as main_module
from outrider.errors import EXIT_CODES, ModelFileError, OutriderError


def tree(base: type[OutriderError]) -> Iterator[type[OutriderError]]:
    yield base
    for child in base.__subclasses__():
        yield from tree(child)


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def build_parser() -> argparse.ArgumentParser:
        raise error

    monkeypatch.setattr(main_module, "build_parser", build_parser)


@pytest.mark.parametrize("kind", [kind for kind in tree(OutriderError) if kind.__module__ == errors.__name__])
def test_every_error_has_its_own_exit_code(outrider: Any, monkeypatch: pytest.MonkeyPatch, kind: type[OutriderError]) -> None:
    raising(monkeypatch, kind("it broke\nin two", "mend it"))
    done = outrider("run")
    assert done.code == EXIT_CODES[kind]
    assert (done.out, done.err) == ("", "outrider: error: it broke in two\nhint: mend it\n")


def test_json_errors_are_a_document(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ModelFileError("bad magic", "fetch it again", path="a.gguf", offset=4))
    done = outrider("run", "--json")
    message = "a.gguf at byte 4: bad magic"
    expected = {"type": "ModelFileError", "message": message, "hint": "fetch it again", "exit_code": 4}
    assert json.loads(done.out) == {"error": expected}
    assert done.err == f"outrider: error: {message}\nhint: fetch it again\n"


def test_an_error_without_hint_and_with_escapes(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, OutriderError("odd \x1b[31mfile"))
    done = outrider("run")
    assert (done.code, done.err) == (70, "outrider: error: odd ␛[31mfile\n")


def test_an_unexpected_error_asks_to_be_reported(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, RuntimeError("what?"))
    done = outrider("run", "--json")
    assert done.code == 1
    assert done.err.startswith("outrider: error: unexpected RuntimeError: what?\nhint: this is a bug")
    assert json.loads(done.out)["error"]["exit_code"] == 1


def test_debug_shows_the_traceback(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, OutriderError("x"))
    monkeypatch.setenv("OUTRIDER_DEBUG", "1")
    assert "Traceback" in outrider("run").err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), EXIT_CODES[errors.OutOfMemoryError], "memory ran out"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_what_python_raises(outrider: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str) -> None:
    raising(monkeypatch, error)
    monkeypatch.setattr(main_module, "drop", lambda stream: None)  # pytest wants its output back
    done = outrider("run")
    assert done.code == code
    assert message in done.err
    assert "Traceback" not in done.err
