"""Text streams against decoding everything at once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import EngineError
from outrider.text.stop import StopMatcher
from outrider.text.stream import TextStream
from outrider.types import Tokens

EURO = "€".encode()
ROCKET = "🚀".encode()


class Pieces:
    """A tokenizer whose token i is the i-th of these byte strings."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    @property
    def n_vocab(self) -> int:
        return len(self.pieces)

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset()

    @property
    def special_texts(self) -> tuple[str, ...]:
        return ()

    def encode(self, text: str, *, parse_special: bool, add_bos: bool) -> Tokens:
        raise NotImplementedError

    def piece(self, token: int) -> bytes:
        return self.pieces[token]


def stream_all(tokenizer: Pieces, stops: tuple[str, ...] = ()) -> tuple[TextStream, list[str]]:
    stream = TextStream(tokenizer, stops)
    shown: list[str] = []
    for token in range(tokenizer.n_vocab):
        shown.append(stream.push(token))
        if stream.stopped:
            break
    shown.append(stream.finish())
    return stream, shown


VALID = st.text(alphabet="ab \nß€🚀", max_size=30).map(str.encode)
ANY = st.binary(max_size=30)
BROKEN = (EURO[:2], ROCKET[:3], b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90")
MIXED = st.lists(st.sampled_from([b"a", EURO, ROCKET, *BROKEN]), max_size=12).map(b"".join)
CUTS = st.lists(st.integers(0, 90), max_size=30)
STOPS = st.lists(st.text(alphabet="ab\n€🚀\ufffd", min_size=1, max_size=3), max_size=3).map(tuple)


@given(st.one_of(VALID, ANY, MIXED), CUTS, STOPS)
def test_any_split_gives_the_text_of_all_bytes_at_once(data: bytes, cuts: list[int], stops: tuple[str, ...]) -> None:
    edges = sorted([0, len(data), *(min(cut, len(data)) for cut in cuts)])
    tokenizer = Pieces(*(data[a:b] for a, b in pairwise(edges)))
    stream, shown = stream_all(tokenizer, stops)
    at_once = StopMatcher(stops)
    expected = at_once.push(data.decode("utf-8", "replace")) + at_once.finish()
    assert "".join(shown) == stream.text == "".join(stream.token_texts) == expected
    assert stream.stop_string == at_once.matched


@given(MIXED, STOPS)
def test_shown_text_only_grows(data: bytes, stops: tuple[str, ...]) -> None:
    stream = TextStream(Pieces(*(data[i : i + 1] for i in range(len(data)))), stops)
    for token in range(len(data)):
        before = stream.text
        assert before + stream.push(token) == stream.text
        if stream.stopped:
            break


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    stream, shown = stream_all(Pieces(b"x", ROCKET[:1], ROCKET[1:3], ROCKET[3:] + b"y"))
    assert stream.token_texts == ["x", "", "", "🚀y"]
    assert shown == ["x", "", "", "🚀y", ""]


def test_a_final_incomplete_character_is_one_replacement_character() -> None:
    stream, shown = stream_all(Pieces(b"x", ROCKET[:1], ROCKET[1:3]))
    assert shown == ["x", "", "", "\ufffd"]
    assert stream.token_texts == ["x", "", "\ufffd"]


def test_control_tokens_have_no_text() -> None:
    stream, _ = stream_all(Pieces(b"a", b"", b"b"))
    assert stream.token_texts == ["a", "", "b"]


def test_text_cut_by_a_stop_string_is_trimmed_from_the_last_tokens() -> None:
    stream, shown = stream_all(Pieces(b"keep <", b"en", b"d> gone"), ("<end>",))
    assert stream.token_texts == ["keep ", "", ""]
    assert shown == ["keep ", "", "", ""]
    assert stream.stop_string == "<end>"


def test_a_stop_string_across_a_split_character() -> None:
    stream, _ = stream_all(Pieces(b"a", EURO[:1], EURO[1:], b"b"), ("€b",))
    assert stream.token_texts == ["a", "", "", ""]


def test_the_replacement_of_a_final_piece_can_complete_a_stop_string() -> None:
    stream, shown = stream_all(Pieces(b"a", b"b", ROCKET[:2]), ("b\ufffd",))
    assert stream.stopped
    assert "".join(shown) == "a"
    assert stream.token_texts == ["a", "", ""]


def test_no_token_after_the_end() -> None:
    stream, _ = stream_all(Pieces(b"a.", b"b"), (".",))
    with pytest.raises(EngineError):
        stream.push(1)
    finished, _ = stream_all(Pieces(b"a"))
    assert finished.finish() == ""
    with pytest.raises(EngineError):
        finished.push(0)
