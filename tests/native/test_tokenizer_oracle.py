"""Every tokenizer family against llama.cpp, on vocabularies that are small and full of ties, gaps and look-alikes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("outrider.native._core", reason="the native core was not built", exc_type=ImportError)

from outrider.gguf import TokenType
from outrider.native.pre_tokenizers import PRE_TOKENIZERS
from tests.model_files import byte_letters
from tests.native.vocabulary_files import Both, VocabularyFile

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
N, U, C, D, X, B = (TokenType[name] for name in ("NORMAL", "UNKNOWN", "CONTROL", "USER_DEFINED", "UNUSED", "BYTE"))
ROUNDS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SPECIALS = {"<|user|>": C, "<|user|>x": C, "</s>": N, "<tool>": D, "<|endoftext|>": C, "▁<mid>": D, "<|channel|>": C, "[gap]": X}
PIECES = {
    "▁": -1.0, "a": -1.0, "b": -2.0, "s": -3.0, "<": -3.0, ">": -3.0, "é": -3.0, "ab": -4.0,
    "ba": -4.0, "aa": -4.0, "aaa": -4.0,
    "aaaaa": -4.0, "▁a": -5.0, "▁▁": -2.5, "▁▁▁": -2.5, "▁▁▁▁": 0.0, "▁ab": -1.5,
    "<s": -1.0, "a▁": -6.0, "b▁a": -3.5, "abb": 0.0, "s>": -2.0,
}  # fmt: skip
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*SPECIALS, *PIECES, " ", "  ", "\n", "\t", "<s>", "<0x41>", "▁", "é", "中", "\0", "[EMPTY_280]"]),
        st.text(alphabet="ab ▁<s>\n", max_size=12),
        st.text(max_size=6),
    ),
    max_size=12,
).map("".join)


def sentence_piece(pieces: dict[str, float], **changes: object) -> VocabularyFile:
    tokens = ["<unk>", "<s>", *BYTES, *SPECIALS, *pieces, ""]
    types = [U, C, *[B] * 256, *SPECIALS.values(), *[N] * len(pieces), D]
    scores = [0.0] * (258 + len(SPECIALS)) + [*pieces.values(), 0.0]
    return VocabularyFile("llama", tokens, types, scores, **{"more": {"eos_token_id": 260}, **changes})  # type: ignore[arg-type]


def opened(file: VocabularyFile, folder: Path) -> Iterator[Both]:
    both = Both(file.write(folder / "vocabulary.gguf"))
    yield both
    both.close()


@pytest.fixture(scope="module", params=["plain", "no space in front", "phi-3"])
def spoken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    more = {"eos_token_id": 260, "add_space_prefix": request.param != "no space in front"}
    name = "Phi-3 mini" if request.param == "phi-3" else "Tiny"
    yield from opened(sentence_piece(PIECES, more=more, name=name), tmp_path_factory.mktemp("spm"))


@given(text=TEXTS)
@ROUNDS
def test_sentence_piece(spoken: Both, text: str) -> None:
    spoken.check(text)


@pytest.mark.parametrize(
    "text", ["", " ", "aaaaaaa", " " * 50 + "a", "a" * 3000, "<|user|>  a<tool> b", "<s> </s>", "é中\U0001f600", "ab\0"]
)
def test_sentence_piece_on_what_chance_would_miss(spoken: Both, text: str) -> None:
    spoken.check(text)


def test_pieces_of_sentence_piece(spoken: Both) -> None:
    spoken.check_pieces()
    assert spoken.tokenizer.piece(2 + 0x0A) == b"\n"
    assert spoken.tokenizer.piece(spoken.vocabulary.tokens.index("▁ab")) == b" ab"


@given(
    pieces=st.dictionaries(st.text(alphabet="ab▁", min_size=1, max_size=5), st.sampled_from([0.0, -1.0, -2.0, -2.5]), max_size=25),
    texts=st.lists(st.text(alphabet="ab ", max_size=30), min_size=1, max_size=5),
)
@ROUNDS
def test_any_sentence_piece_vocabulary(tmp_path: Path, pieces: dict[str, float], texts: list[str]) -> None:
    for both in opened(sentence_piece(pieces), tmp_path):
        for text in texts:
            both.check(text)


def test_a_vocabulary_without_scores(tmp_path: Path) -> None:
    file = sentence_piece(PIECES)
    file.scores = []
    for both in opened(file, tmp_path):
        for text in ("aabab abb", "   ab", "<s>aaaaa"):
            both.check(text)


# ---------------------------------------------------------------- byte pairs

LETTERS = ["a", "B", "s", "'", "1", "!", "Ġ", "Ċ", "ĉ", "Ã", "©"]
MIXED = "a1!\n \r\t中ア가ÉΩ\u0301\u3000\u2028$`\uff0b\uff21½"
WORDS = st.text(alphabet="aBs'1! \n\té", max_size=30) | st.text(max_size=20) | st.text(alphabet=MIXED, max_size=25)


def byte_pairs(pre: str | None, *, letters: list[str] | None = None) -> VocabularyFile:
    """Every two and three of eleven bytes are a token, so that any cut in a word shows."""
    pairs = list(itertools.product(LETTERS, LETTERS))
    merges = [f"{left} {right}" for left, right in pairs] + [f"{left}{right} {more}" for left, right in pairs for more in LETTERS]
    tokens = [*(letters or byte_letters()), *(merge.replace(" ", "") for merge in merges), "<|im_end|>", "<tool>", "<|fim_middle|>"]
    types = [N] * (len(tokens) - 3) + [N, D, D]
    return VocabularyFile("gpt2", tokens, types, merges=merges, pre=pre, more={"bos_token_id": 0, "eos_token_id": 1})


@pytest.fixture(scope="module", params=[*{way: name for name, way in PRE_TOKENIZERS.items()}.values(), None])
def paired(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    yield from opened(byte_pairs(request.param), tmp_path_factory.mktemp("bpe"))


@given(text=WORDS)
@ROUNDS
def test_byte_pairs(paired: Both, text: str) -> None:
    paired.check(text)


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_every_name_means_what_it_means_to_llama_cpp(name: str, tmp_path: Path) -> None:
    for both in opened(byte_pairs(name), tmp_path):
        for text in ("a's B'S 1111!!\n\n  a", "aBsaB Bas  \t\n a!\n'", "é1é!<|im_end|>a<tool> <|fim_middle|>"):
            both.check(text)
        both.check_pieces()


def test_letters_that_are_newer_than_llama_cpp(paired: Both) -> None:
    for character in "\U0001e5d0\U0001ccf3\u1c89\u31e4":
        paired.check(f"a{character}1{character}! {character}{character}\n")


def test_a_byte_without_a_token_is_left_out_and_nothing_joins_across_it(tmp_path: Path) -> None:
    for both in opened(byte_pairs("qwen2", letters=[letter for letter in byte_letters() if letter not in "zñ"]), tmp_path):
        both.check("azb az zz a\U00043fd4s\U00044f98a")
        assert [both.vocabulary.tokens[token] for token in both.tokenizer.encode("aza", parse_special=False, add_bos=False)] == ["a", "a"]
