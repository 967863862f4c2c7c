"""Small files that hold nothing but a vocabulary, read by llama.cpp (the oracle) and by us."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llama_cpp

from outrider.gguf import TokenType, read_header, read_vocabulary
from outrider.native.tokenizer import NativeTokenizer
from outrider.types import Tokens
from tests.model_files import write_gguf

_QUIET = llama_cpp.llama_log_callback(lambda *_: None)


@dataclass
class VocabularyFile:
    """What to write: texts with their types and scores, and what else the tokenizer keys say."""

    model: str
    tokens: list[str]
    types: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    pre: str | None = None
    name: str = "Tiny"
    more: dict[str, int | bool] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        keys = {
            "general.name": self.name,
            "tokenizer.ggml.model": self.model,
            "tokenizer.ggml.pre": self.pre,
            "tokenizer.ggml.tokens": self.tokens,
            "tokenizer.ggml.token_type": [int(kind) for kind in self.types or [TokenType.NORMAL] * len(self.tokens)],
            "tokenizer.ggml.scores": self.scores or None,
            "tokenizer.ggml.merges": self.merges if self.model == "gpt2" else None,
        }
        return write_gguf(path, "llama", keys | {f"tokenizer.ggml.{key}": value for key, value in self.more.items()})


class Oracle:
    """llama.cpp on a vocabulary."""

    def __init__(self, path: Path) -> None:
        llama_cpp.llama_log_set(_QUIET, ctypes.c_void_p(0))
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model: Any = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        assert self._model
        self.vocabulary: Any = llama_cpp.llama_model_get_vocab(self._model)

    def encode(self, text: str, *, parse_special: bool) -> Tokens:
        raw = text.encode()
        buffer = (ctypes.c_int32 * (3 * len(raw) + 16))()  # a space is U+2581 to SentencePiece: three bytes
        n_tokens = llama_cpp.llama_tokenize(self.vocabulary, raw, len(raw), buffer, len(buffer), False, parse_special)
        assert n_tokens >= 0
        return buffer[:n_tokens]

    def piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(256)
        n_bytes = llama_cpp.llama_token_to_piece(self.vocabulary, token, buffer, len(buffer), 0, False)
        return buffer.raw[:n_bytes]

    def close(self) -> None:
        llama_cpp.llama_model_free(self._model)


class Both:
    """A vocabulary file at work on both sides."""

    def __init__(self, path: Path) -> None:
        self.oracle = Oracle(path)
        self.vocabulary = read_vocabulary(read_header(path))
        self.tokenizer = NativeTokenizer(self.vocabulary)

    def check(self, text: str) -> None:
        for parse_special in (False, True):
            ours = self.tokenizer.encode(text, parse_special=parse_special, add_bos=False)
            assert ours == self.oracle.encode(text, parse_special=parse_special), (text, parse_special)

    def check_pieces(self) -> None:
        for token in range(len(self.vocabulary)):
            assert self.tokenizer.piece(token) == self.oracle.piece(token), self.vocabulary.tokens[token]

    def close(self) -> None:
        self.oracle.close()
