"""The tokenizer over llama.cpp, on a vocabulary of bytes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.errors import EngineError, RequestError
from outrider.llama import LlamaTokenizer, load
from outrider.llama import tokenizer as module
from outrider.llama.library import library
from tests.llama.conftest import Make
from tests.llama.tiny import BOS, EOS, TinyModel
from tests.model_files import byte_letters


@pytest.fixture
def tokenizer(make: Make) -> LlamaTokenizer:
    return make().tokenizer


def test_what_the_file_says(tokenizer: LlamaTokenizer) -> None:
    assert tokenizer.n_vocab == 260
    assert tokenizer.end_tokens == {EOS, 259}  # declared, and known by its text


@given(text=st.text(alphabet=st.characters(blacklist_categories=("Cs",)), max_size=40), parse_special=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_are_the_text(tokenizer: LlamaTokenizer, text: str, parse_special: bool) -> None:
    tokens = tokenizer.encode(text, parse_special=parse_special, add_bos=False)
    assert b"".join(map(tokenizer.piece, tokens)) == text.encode()


def test_special_text_is_special_only_on_request(tokenizer: LlamaTokenizer) -> None:
    assert tokenizer.encode("<s>", parse_special=True, add_bos=False) == [BOS]
    typed = tokenizer.encode("<s>", parse_special=False, add_bos=False)
    assert BOS not in typed
    assert b"".join(map(tokenizer.piece, typed)) == b"<s>"


def test_special_texts_are_the_control_tokens(tokenizer: LlamaTokenizer) -> None:
    assert tokenizer.special_texts == ("<s>", "</s>", "<|end|>")


def test_the_beginning_of_text(tokenizer: LlamaTokenizer, tmp_path: Path) -> None:
    assert tokenizer.encode("ab", parse_special=False, add_bos=True) == [BOS, 258]
    assert tokenizer.encode("", parse_special=False, add_bos=True) == [BOS]
    assert tokenizer.encode("", parse_special=False, add_bos=False) == []
    without = load(TinyModel(metadata={"tokenizer.ggml.add_bos_token": False}).write(tmp_path / "nobos.gguf"))
    assert without.tokenizer.encode("ab", parse_special=False, add_bos=True) == [258]
    without.close()


def test_an_end_token_is_never_appended(tmp_path: Path) -> None:
    model = load(TinyModel(metadata={"tokenizer.ggml.add_eos_token": True}).write(tmp_path / "eos.gguf"))
    assert model.tokenizer.encode("ab", parse_special=False, add_bos=True) == [BOS, 258]
    model.close()


def test_control_tokens_have_no_bytes(tokenizer: LlamaTokenizer) -> None:
    assert [tokenizer.piece(token) for token in (BOS, EOS, 258, 259)] == [b"", b"", b"ab", b""]


@pytest.mark.parametrize("token", [-1, 260, 2**31, -(2**40)])
def test_ids_outside_the_vocabulary(tokenizer: LlamaTokenizer, token: int) -> None:
    with pytest.raises(EngineError, match="outside the vocabulary of 260"):
        tokenizer.piece(token)


@pytest.mark.parametrize("text", [chr(0xD800), f"a{chr(0xDFFF)}b", chr(0xDC80)])
def test_lone_surrogates(tokenizer: LlamaTokenizer, text: str) -> None:
    with pytest.raises(RequestError, match="lone surrogate at character"):
        tokenizer.encode(text, parse_special=True, add_bos=True)


def test_a_piece_longer_than_the_buffer(tmp_path: Path) -> None:
    long = "z" * 5000
    tiny = TinyModel(tokens=[*byte_letters(), "<s>", "</s>", "ab", long], types=[1] * 256 + [3, 3, 1, 1])
    model = load(tiny.write(tmp_path / "long.gguf"))
    assert model.tokenizer.piece(259) == long.encode()
    assert model.tokenizer.piece(97) == b"a"
    model.close()


def test_a_text_that_is_too_long(tokenizer: LlamaTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES", 10)
    tokenizer.encode("é" * 5, parse_special=False, add_bos=False)
    with pytest.raises(RequestError, match="11 bytes is too long"):
        tokenizer.encode("é" * 5 + "a", parse_special=False, add_bos=False)


def test_native_answers_are_read(tokenizer: LlamaTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    api = library().api
    real = api.llama_tokenize
    sizes: list[int] = []

    def small_at_first(vocab: Any, text: bytes, n: int, buffer: Any, size: int, *rest: Any) -> int:
        sizes.append(size)
        return -500 if size < 500 else int(real(vocab, text, n, buffer, size, *rest))

    monkeypatch.setattr(api, "llama_tokenize", small_at_first)
    assert tokenizer.encode("xy", parse_special=False, add_bos=False) == [120, 121]
    assert sizes[-1] == 500
    for code in (-(2**31), -7):
        monkeypatch.setattr(api, "llama_tokenize", lambda *_, code=code: code)
        with pytest.raises(RequestError, match="could not tokenize"):
            tokenizer.encode("xy", parse_special=False, add_bos=False)
    monkeypatch.setattr(api, "llama_token_to_piece", lambda *_: -100)
    with pytest.raises(EngineError, match="could not write token 5"):
        tokenizer.piece(5)


def test_any_thread_may_use_it(tokenizer: LlamaTokenizer) -> None:
    texts = [f"thread {number} says ab é 中 " * 50 for number in range(6)]
    wrong: list[str] = []

    def work(text: str) -> None:
        for _ in range(20):
            tokens = tokenizer.encode(text, parse_special=True, add_bos=False)
            if b"".join(map(tokenizer.piece, tokens)) != text.encode():
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_after_its_model_is_closed(make: Make) -> None:
    model = make()
    kept = model.tokenizer
    model.close()
    for use in (lambda: kept.piece(1), lambda: kept.special_texts, lambda: kept.encode("a", parse_special=False, add_bos=False)):
        with pytest.raises(EngineError, match="closed"):
            use()
    assert kept.end_tokens == {EOS, 259}
