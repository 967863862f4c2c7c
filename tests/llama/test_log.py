from __future__ import annotations

import logging

import pytest

from outrider.llama.log import LogCapture

WARNING, ERROR, CONTINUED, INFO = 3, 4, 5, 2


def test_the_first_error_is_the_reason() -> None:
    log = LogCapture()
    log.write(INFO, b"load: hello\n")
    log.write(WARNING, b"load: careful\n")
    log.write(ERROR, b"check: wrong shape\n")
    log.write(ERROR, b"load: failed to load model\n")
    assert log.reason() == "wrong shape"
    assert log.errors() == ["wrong shape", "failed to load model"]
    log.clear()
    assert log.errors() == []
    assert log.reason()


def test_pieces_of_a_line_are_joined() -> None:
    log = LogCapture()
    log.write(CONTINUED, b"lost")
    log.write(ERROR, b"load: a")
    log.write(CONTINUED, b" b\n")
    assert log.errors() == ["a b"]


def test_bytes_that_are_no_text_and_many_lines() -> None:
    log = LogCapture(n_kept=3)
    for number in range(10):
        log.write(ERROR, b"\xff%d" % number)
    assert len(log.errors()) == 3


def test_every_line_reaches_python_s_logger_and_no_screen(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    log = LogCapture()
    with caplog.at_level(logging.DEBUG, logger="outrider.llama"):
        log.write(ERROR, b"f: boom\n")
    assert "boom" in caplog.text
    assert capfd.readouterr().err == ""
