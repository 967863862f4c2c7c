"""The tokenizer on a vocabulary that fits on a screen; `test_tokenizer_oracle.py` compares with llama.cpp."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("outrider.native._core", reason="the native core was not built", exc_type=ImportError)

from outrider.errors import RequestError, UnsupportedModelError
from outrider.gguf import FimTokens, TokenType, Vocabulary
from outrider.native.tokenizer import _BYTES, NativeTokenizer, doubtful_tokenizer

SPECIALS = ["<|end|>", "<|end|><|x|>", "<tool>"]
TOKENS = [*_BYTES, "ab", "abc", "Ġa", *SPECIALS]
END, LONG, TOOL = (len(TOKENS) - 3, len(TOKENS) - 2, len(TOKENS) - 1)


def vocabulary() -> Vocabulary:
    types = np.full(len(TOKENS), TokenType.NORMAL, dtype=np.int32)
    types[[END, LONG]] = TokenType.CONTROL
    types[TOOL] = TokenType.USER_DEFINED
    nothing = dict.fromkeys(("eos", "eot", "eom", "unknown", "padding", "scores", "chat_template"))
    return Vocabulary(
        model="gpt2", pre="qwen2", tokens=TOKENS, types=types, merges=["a b", "ab c", "Ġ a"], bos=END, fim=FimTokens(),
        add_bos=True, add_eos=False, add_space_prefix=False, end_tokens=frozenset({END}), **nothing,  # type: ignore[arg-type]
    )  # fmt: skip


TOKENIZER = NativeTokenizer(vocabulary())


def encode(text: str, *, parse_special: bool = True) -> list[str]:
    return [TOKENS[token] for token in TOKENIZER.encode(text, parse_special=parse_special, add_bos=False)]


def test_pairs_are_merged_best_first() -> None:
    assert encode("abc ab a") == ["abc", "Ġ", "ab", "Ġa"]


def test_control_tokens_are_parsed_on_request_only() -> None:
    assert encode("a<|end|>b") == ["a", "<|end|>", "b"]
    assert "<|end|>" not in encode("a<|end|>b", parse_special=False)


def test_longest_special_token_wins() -> None:
    assert encode("<|end|><|x|>") == ["<|end|><|x|>"]


def test_added_tokens_are_always_cut_out() -> None:
    assert encode("a<tool>", parse_special=False) == ["a", "<tool>"]


def test_special_texts_are_the_control_tokens() -> None:
    assert set(TOKENIZER.special_texts) == {"<|end|>", "<|end|><|x|>"}


def test_bos_where_the_file_wants_one() -> None:
    assert TOKENIZER.encode("a", parse_special=True, add_bos=True)[0] == END
    assert NativeTokenizer(replace(vocabulary(), add_bos=False)).encode("", parse_special=True, add_bos=True) == []


@given(st.text())
def test_pieces_concatenate_to_the_text(text: str) -> None:
    tokens = TOKENIZER.encode(text, parse_special=False, add_bos=False)
    assert b"".join(TOKENIZER.piece(token) for token in tokens) == text.encode()


def test_control_tokens_have_no_bytes() -> None:
    assert [TOKENIZER.piece(token) for token in (END, LONG, TOOL)] == [b"", b"", b"<tool>"]


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(RequestError, match="lone surrogate at position 1"):
        TOKENIZER.encode("a\ud800", parse_special=True, add_bos=False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "llama"}, "no token for 162 of the 256 bytes"),
        ({"model": "t5"}, "the tokenizer 't5'"),
        ({"pre": "something"}, "the pre-tokenizer 'something'"),
    ],
)
def test_unknown_families_name_the_way_out(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"{reason}.*--backend llama"):
        NativeTokenizer(replace(vocabulary(), **changes))  # type: ignore[arg-type]


def test_a_file_that_does_not_say_how_it_splits_is_doubtful() -> None:
    assert doubtful_tokenizer(vocabulary()) is None
    assert "does not say how its text is split" in (doubtful_tokenizer(replace(vocabulary(), pre=None)) or "")
    assert doubtful_tokenizer(replace(vocabulary(), model="llama", pre=None)) is None
