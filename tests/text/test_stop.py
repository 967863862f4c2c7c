"""Stop strings against a naive reference, whatever the pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import ConfigError
from outrider.text.stop import StopMatcher

TEXT = st.text(alphabet="abcß", max_size=40)
STOPS = st.lists(st.text(alphabet="abcß", min_size=1, max_size=5), max_size=4)
CUTS = st.lists(st.integers(0, 40), max_size=12)


def naive(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The text before the stop string that is complete first; the longest among those that end together."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(edges)]


@given(TEXT, STOPS, CUTS)
def test_any_pieces_give_the_naive_answer(text: str, stops: list[str], cuts: list[int]) -> None:
    matcher = StopMatcher(stops)
    shown = [matcher.push(piece) for piece in pieces(text, cuts)]
    expected, stop = naive(text, stops)
    assert "".join(shown) + matcher.finish() == expected
    assert matcher.matched == stop


@given(TEXT, STOPS, CUTS)
def test_holds_back_exactly_what_may_become_a_stop_string(text: str, stops: list[str], cuts: list[int]) -> None:
    matcher = StopMatcher(stops)
    seen = shown = ""
    for piece in pieces(text, cuts):
        seen += piece
        shown += matcher.push(piece)
        if matcher.matched is not None:
            return
        beginnings = [stop[:n] for stop in stops for n in range(len(stop)) if seen.endswith(stop[:n])]
        assert len(seen) - len(shown) == max(map(len, beginnings), default=0)


def test_without_stop_strings_nothing_is_held() -> None:
    matcher = StopMatcher(())
    assert [matcher.push("a"), matcher.push("bc"), matcher.finish()] == ["a", "bc", ""]


def test_what_follows_a_stop_string_is_dropped() -> None:
    matcher = StopMatcher(["\n\n"])
    assert matcher.push("one\n") == "one"
    assert matcher.push("\ntwo") == ""
    assert matcher.push("three") == ""
    assert matcher.finish() == ""
    assert matcher.matched == "\n\n"


def test_a_long_held_text_is_not_copied_again_and_again() -> None:
    stop = "a" * 20_000 + "b"
    matcher = StopMatcher([stop])
    shown = [matcher.push("a") for _ in range(40_000)]
    assert sum(map(len, shown)) == 20_000
    assert matcher.push("b") == ""
    assert matcher.matched == stop


def test_an_empty_stop_string_is_an_option_error() -> None:
    with pytest.raises(ConfigError, match="stop string is empty"):
        StopMatcher(["x", ""])
