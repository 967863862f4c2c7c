"""How tokens are written."""

from __future__ import annotations

import io
from typing import Any

import pytest

from outrider.cli.display import Look, TokenPrinter, legend
from outrider.cli.output import one_line
from outrider.cli.report import print_dimmed
from outrider.errors import OutriderError
from outrider.session import TokenEvent
from outrider.types import EmittedToken, TokenKind

GREEN, YELLOW, CYAN, REJECTED, RESET = "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[2;9m", "\x1b[0m"


def event(text: str, kind: TokenKind | None = TokenKind.PLAIN, *rejected: str) -> TokenEvent:
    return TokenEvent(text, None if kind is None else EmittedToken(0, "x", kind), rejected)


def printed(look: Look, *events: TokenEvent, **more: Any) -> str:
    stream = io.StringIO()
    with TokenPrinter(stream, look, on_broken=lambda: None, **more) as printer:
        for item in events:
            printer.show(item)
    return stream.getvalue()


def test_each_kind_has_its_colour_and_a_run_of_one_kind_has_it_once() -> None:
    events = [event("a", TokenKind.ACCEPTED), event("b", TokenKind.ACCEPTED), event("c", TokenKind.BONUS), event("d", TokenKind.PLAIN)]
    events.append(event("e", TokenKind.RECOVERED))
    assert printed(Look(color=True), *events) == f"{GREEN}ab{RESET}{CYAN}c{RESET}d{YELLOW}e{RESET}\n"


def test_rejected_tokens_come_before_their_replacement() -> None:
    look = Look(color=True, rejected=True)
    assert printed(look, event("a", TokenKind.RECOVERED, "x\n", "y")) == f"{REJECTED}x↵y{RESET}{YELLOW}a{RESET}\n"
    assert printed(Look(color=True), event("a", TokenKind.RECOVERED, "x")) == f"{YELLOW}a{RESET}\n"


def test_text_that_was_held_back_to_the_end_has_no_token() -> None:
    assert printed(Look(color=True), event("", TokenKind.ACCEPTED), event("�", None)) == "�\n"


@pytest.mark.parametrize(("texts", "expected"), [(["a\n"], "a\n"), (["a"], "a\n"), ([], ""), (["a\n", ""], "a\n")])
def test_the_line_is_ended_once(texts: list[str], expected: str) -> None:
    assert printed(Look(), *map(event, texts)) == expected


def test_an_answer_of_nothing_ends_a_line_that_was_begun() -> None:
    assert printed(Look(), is_mid_line=True) == "\n"


@pytest.mark.parametrize("look", [Look(safe=True), Look(color=True, safe=True)])
def test_control_characters_become_pictures(look: Look) -> None:
    hostile = "\x1b]0;title\x07\x9b31m\x7f\x08\r\x00ok\n\t"
    assert "␛]0;title␇\ufffd31m␡␈␍␀ok\n\t" in printed(look, event(hostile))


def test_without_a_terminal_text_is_untouched() -> None:
    assert printed(Look(), event("\x1b[1m\r\n")) == "\x1b[1m\r\n"


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left on device")])
def test_broken_output_stops_the_generation_once_and_raises_at_the_end(error: OSError) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    stops: list[None] = []
    printer = TokenPrinter(Broken(), Look(), on_broken=lambda: stops.append(None))
    printer.show(event("a"))
    printer.show(event("b"))
    assert len(stops) == 1
    with pytest.raises((BrokenPipeError, OutriderError)):
        printer.__exit__(None, None, None)


def test_an_error_inside_is_not_hidden_by_broken_output() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    printer = TokenPrinter(Broken(), Look(), on_broken=lambda: None)
    printer.show(event("a"))
    error = ValueError("first")
    printer.__exit__(type(error), error, None)  # returns nothing, so the error goes on


def test_the_legend_names_what_is_shown() -> None:
    assert "rejected" not in legend(Look(color=True))
    assert f"{REJECTED}rejected{RESET}" in legend(Look(color=True, rejected=True))


def test_one_line_is_harmless() -> None:
    assert one_line("a\n b\x07") == "a b␇"


def test_lines_under_an_answer_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    print_dimmed(["", "a\x1b[2J"])
    assert capsys.readouterr().err == "\na␛[2J\n"
