"""What a vocabulary says, what it leaves to be found by text, and where generation ends."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from outrider.gguf import FimTokens, TokenType, Vocabulary, read_header, read_vocabulary
from tests.gguf_files import (
    ARRAY,
    BOOL,
    F32,
    I32,
    STRING,
    TINY_MERGES,
    TINY_TEMPLATE,
    TINY_TOKENS,
    TINY_TYPES,
    U32,
    GgufFile,
    tiny_model,
)


def vocabulary(file: GgufFile, tmp_path: Path) -> Vocabulary:
    return read_vocabulary(read_header(file.write(tmp_path / "model.gguf")))


def with_tokens(*tokens: str, model: str = "gpt2") -> GgufFile:
    file = GgufFile().set("tokenizer.ggml.model", STRING, model).set("tokenizer.ggml.tokens", ARRAY, (STRING, tokens))
    return file.set("tokenizer.ggml.merges", ARRAY, (STRING, []))


def test_what_the_file_says(tmp_path: Path) -> None:
    found = vocabulary(tiny_model(), tmp_path)
    assert (found.model, found.pre) == ("gpt2", "qwen2")
    assert found.tokens == list(TINY_TOKENS)
    assert found.types.tolist() == list(TINY_TYPES)
    assert found.types.dtype == np.int32
    assert found.merges == list(TINY_MERGES)
    assert found.scores is None
    assert (found.bos, found.eos, found.padding, found.unknown) == (7, 9, 7, None)
    assert (found.add_bos, found.add_eos, found.add_space_prefix) == (False, False, False)
    assert found.chat_template == TINY_TEMPLATE
    assert len(found) == 12


def test_ends_are_found_by_text_where_none_is_declared(tmp_path: Path) -> None:
    found = vocabulary(tiny_model(), tmp_path)
    assert (found.eot, found.eom) == (9, None)  # <|im_end|> goes before <|endoftext|>
    assert found.end_tokens == {7, 9}
    found = vocabulary(with_tokens("a", "<|eom_id|>", "<|eot_id|>", "<end_of_turn>", "</s>"), tmp_path)
    assert (found.eot, found.eom, found.bos, found.eos) == (2, 1, None, None)
    assert found.end_tokens == {1, 2, 3, 4}


def test_declared_ends_count_whatever_their_text(tmp_path: Path) -> None:
    file = with_tokens("a", "b", "c", "d")
    for name, token in (("eos", 0), ("eot", 1), ("eom", 2)):
        file.set(f"tokenizer.ggml.{name}_token_id", U32, token)
    assert vocabulary(file, tmp_path).end_tokens == {0, 1, 2}


def test_texts_that_end_a_turn_in_one_family_and_not_in_another(tmp_path: Path) -> None:
    assert vocabulary(with_tokens("<|end|>", "<|return|>"), tmp_path).end_tokens == {0, 1}
    assert vocabulary(with_tokens("<|end|>", "<|return|>", "<|call|>"), tmp_path).end_tokens == {1, 2}
    assert vocabulary(with_tokens("<|end|>", "<|flush|>", "<|calls|>"), tmp_path).end_tokens == {1, 2}
    assert vocabulary(with_tokens("</s>", "<|tool_response>"), tmp_path).end_tokens == {1}
    plamo = with_tokens("</s>", "<|plamo:eos|>").set("tokenizer.ggml.eos_token_id", U32, 1)
    assert vocabulary(plamo, tmp_path).end_tokens == {1}


def test_tokens_for_filling_in_the_middle(tmp_path: Path) -> None:
    file = with_tokens("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "x")
    assert vocabulary(file, tmp_path).fim == FimTokens(0, 1, 2, 3, 4, 5)
    file.set("tokenizer.ggml.fim_pre_token_id", U32, 6)
    assert vocabulary(file, tmp_path).fim.prefix == 6
    file.drop("tokenizer.ggml.fim_pre_token_id").set("tokenizer.ggml.prefix_token_id", U32, 6)  # the key's old name
    assert vocabulary(file, tmp_path).fim.prefix == 6
    assert vocabulary(with_tokens("a"), tmp_path).fim == FimTokens()


def test_defaults_of_sentence_piece(tmp_path: Path) -> None:
    file = with_tokens("<unk>", "<s>", "</s>", "<0x41>", model="llama").drop("tokenizer.ggml.merges")
    file.set("tokenizer.ggml.scores", ARRAY, (F32, [0.0, 0.0, 0.0, -1.5])).set("tokenizer.ggml.token_type", ARRAY, (I32, [2, 3, 3, 6]))
    found = vocabulary(file, tmp_path)
    assert (found.unknown, found.bos, found.eos) == (0, 1, 2)
    assert (found.add_bos, found.add_eos, found.add_space_prefix) == (True, False, True)
    assert found.scores is not None
    assert found.scores.tolist() == [0.0, 0.0, 0.0, -1.5]
    assert found.merges == []
    assert vocabulary(file.set("tokenizer.ggml.add_bos_token", BOOL, value=False), tmp_path).add_bos is False
    assert vocabulary(with_tokens("<unk>", model="llama"), tmp_path).bos is None


@pytest.mark.parametrize(("pre", "add_bos"), [("llama-bpe", True), ("tekken", True), ("qwen2", False), ("smollm", False)])
def test_families_that_begin_a_text_with_a_token(pre: str, add_bos: bool, tmp_path: Path) -> None:
    file = with_tokens("a", "b").set("tokenizer.ggml.pre", STRING, pre)
    assert vocabulary(file, tmp_path).add_bos is add_bos


def test_types_default_to_normal(tmp_path: Path) -> None:
    found = vocabulary(with_tokens("a", "b"), tmp_path)
    assert found.types.tolist() == [TokenType.NORMAL] * 2
    assert found.pre is None


def test_types_that_files_get_wrong(tmp_path: Path) -> None:
    file = with_tokens("a", "<|im_end|>", "<fim_prefix>", "<PRE>", "<|channel|>", "<|file_sep|>")
    kinds = [1, 1, 4, 1, 3, 1]
    file.set("tokenizer.ggml.token_type", ARRAY, (I32, kinds))
    assert vocabulary(file, tmp_path).types.tolist() == [1, 3, 3, 1, 4, 3]
    file.set("tokenizer.ggml.fim_pre_token_id", U32, 2)  # what is declared is taken at its word
    assert vocabulary(file, tmp_path).types.tolist() == [1, 3, 4, 1, 4, 3]


def test_merges_of_tokens_that_hold_spaces(tmp_path: Path) -> None:
    file = with_tokens("a", " ", " a", "b", "a ", "ab", "a  ")
    merges = ["a b", "  a", "a  "]  # the second is " " and "a"; the third is "a" and " "
    assert vocabulary(file.set("tokenizer.ggml.merges", ARRAY, (STRING, merges)), tmp_path).merges == merges


def test_several_tokens_may_be_empty(tmp_path: Path) -> None:
    assert vocabulary(with_tokens("a", "", ""), tmp_path).tokens == ["a", "", ""]


def test_only_kimi_needs_no_merges(tmp_path: Path) -> None:
    file = with_tokens("a", "b").drop("tokenizer.ggml.merges").set("tokenizer.ggml.pre", STRING, "kimi-k2")
    assert vocabulary(file, tmp_path).merges == []


def test_a_printed_vocabulary_is_short(tmp_path: Path) -> None:
    assert len(repr(vocabulary(tiny_model(), tmp_path))) < 500


def assert_like_llama_cpp(path: Path) -> None:
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    assert model
    oracle = llama_cpp.llama_model_get_vocab(model)
    found = read_vocabulary(read_header(path))
    n_tokens = llama_cpp.llama_vocab_n_tokens(oracle)
    assert len(found) == n_tokens
    assert found.end_tokens == {token for token in range(n_tokens) if llama_cpp.llama_vocab_is_eog(oracle, token)}
    assert [text.encode() for text in found.tokens] == [llama_cpp.llama_vocab_get_text(oracle, token) for token in range(n_tokens)]
    bits = {TokenType.CONTROL: 1 << 3, TokenType.USER_DEFINED: 1 << 4}
    for kind, bit in bits.items():
        theirs = [bool(llama_cpp.llama_vocab_get_attr(oracle, token) & bit) for token in range(n_tokens)]
        assert (found.types == kind).tolist() == theirs
    for name, declared in (("bos", found.bos), ("eos", found.eos), ("fim_pre", found.fim.prefix), ("fim_suf", found.fim.suffix)):
        theirs = getattr(llama_cpp, f"llama_vocab_{name}")(oracle)
        assert (declared if declared is not None else -1) == theirs, name
    assert found.add_bos == llama_cpp.llama_vocab_get_add_bos(oracle)
    assert found.add_eos == llama_cpp.llama_vocab_get_add_eos(oracle)
    llama_cpp.llama_model_free(model)


def test_a_real_vocabulary_is_what_llama_cpp_makes_of_it(smollm2_path: Path) -> None:
    assert_like_llama_cpp(smollm2_path)


def test_the_target_s_vocabulary_is_what_llama_cpp_makes_of_it(qwen_target_path: Path) -> None:
    assert_like_llama_cpp(qwen_target_path)
