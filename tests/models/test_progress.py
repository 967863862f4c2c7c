from __future__ import annotations

import io

from outrider.models.progress import PlainProgress, SilentProgress, progress_on
from outrider.models.terminal import TerminalProgress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_outside_a_terminal_there_is_a_line_for_every_tenth() -> None:
    stream = io.StringIO()
    progress = progress_on(stream, "it")
    assert isinstance(progress, PlainProgress)
    progress.note("100 kB from the shop")
    progress.start(100_000, 0)
    for done in range(0, 100_001, 2_000):
        progress.update(done)
    progress.stop()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "it: 100 kB from the shop"
    assert [line.partition("(")[0] for line in lines[1:]] == [f"it: {percent} % " for percent in range(10, 101, 10)]
    assert "(50 kB of 100 kB, " in lines[5]


def test_what_was_there_before_is_not_told_again() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, "it")
    progress.start(1000, 550)
    progress.update(560)
    progress.update(600)
    assert stream.getvalue().startswith("it: 60 % (600 bytes of 1 kB, ")


def test_a_terminal_gets_nothing_that_acts_on_it() -> None:
    screen = Screen()
    TerminalProgress(screen, "evil\x1b]0;title\x07").note("from \x1b[2J nowhere")
    assert "\x1b]" not in screen.getvalue()
    assert "\x1b[2J" not in screen.getvalue()
    assert "␛[2J nowhere" in screen.getvalue()


def test_an_empty_file_has_no_tenths() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, "it")
    progress.start(0, 0)
    progress.update(0)
    assert stream.getvalue() == ""


def test_on_a_terminal_notes_stand_above_a_bar_that_goes_away() -> None:
    screen = Screen()
    progress = progress_on(screen, "hf:o/r/f[1].gguf")
    assert isinstance(progress, TerminalProgress)
    progress.start(1000, 0)
    progress.update(500)
    progress.note("half [bold]way[/bold]")
    progress.stop()
    progress.stop()
    text = screen.getvalue()
    assert "hf:o/r/f[1].gguf" in text
    assert "half [bold]way[/bold]" in text  # file names are no markup
    assert text.rstrip().endswith("\x1b[2K")  # the bar's line was erased


def test_an_update_without_a_bar_is_harmless() -> None:
    screen = Screen()
    TerminalProgress(screen, "it").update(5)
    assert screen.getvalue() == ""


def test_silence() -> None:
    progress = SilentProgress()
    progress.note("x")
    progress.start(1, 0)
    progress.update(1)
    progress.stop()
