"""The vocabulary of a GGUF file at work, through llama.cpp."""

from __future__ import annotations

import ctypes
from threading import Lock
from typing import Final

from outrider.errors import EngineError, RequestError, UnsupportedModelError
from outrider.llama.library import Library, VocabHandle
from outrider.types import Tokens

_NO_VOCABULARY: Final = 0  # LLAMA_VOCAB_TYPE_NONE
_SENTENCE_PIECE: Final = 1  # LLAMA_VOCAB_TYPE_SPM
_MAX_BYTES: Final = 2**28  # far beyond any context, and far below the signed 32 bits that llama.cpp counts in


class LlamaTokenizer:
    """A `Tokenizer`. Safe to use from any thread; one native call at a time, so that `close` never pulls the vocabulary away.

    Args:
        lib: the library.
        vocab: a vocabulary that lives until `close`.

    Raises:
        UnsupportedModelError: the file has no tokenizer; llama.cpp would end the process when it is used.
    """

    def __init__(self, lib: Library, vocab: VocabHandle) -> None:
        if lib.vocabulary_type(vocab) == _NO_VOCABULARY or lib.n_tokens(vocab) < 1:
            raise UnsupportedModelError("the model file has no tokenizer", "use a GGUF file that was converted with its vocabulary")
        if lib.vocabulary_type(vocab) == _SENTENCE_PIECE:
            _check_bytes(lib, vocab)
        self._lib = lib
        self._vocab = vocab
        self._lock = Lock()
        self._is_closed = False
        self._piece_buffer = ctypes.create_string_buffer(64)
        self._n_vocab = lib.n_tokens(vocab)
        self._bos = lib.bos_token(vocab)
        self._specials: tuple[str, ...] | None = None
        self._ends = frozenset(token for token in range(self._n_vocab) if lib.is_end(vocab, token))

    @property
    def n_vocab(self) -> int:
        """Number of entries, padding included."""
        return self._n_vocab

    @property
    def end_tokens(self) -> frozenset[int]:
        """Every id that ends a generation, as llama.cpp reads the file (ids that are named, and texts that it knows)."""
        return self._ends

    @property
    def special_texts(self) -> tuple[str, ...]:
        """Texts of the control tokens. Raises EngineError once the model is closed."""
        with self._lock:
            self._check_open()
            if self._specials is None:
                special = (token for token in range(self._n_vocab) if self._lib.is_special(self._vocab, token))
                texts = (self._lib.text(self._vocab, token) for token in special)
                self._specials = tuple(text.decode("utf-8", "replace") for text in texts if text)
            return self._specials

    def encode(self, text: str, *, parse_special: bool, add_bos: bool) -> Tokens:
        """Text to token ids; see the port.

        Raises:
            RequestError: lone surrogates, or a text of more than 256 MiB.
            EngineError: the model is closed.
        """
        try:
            raw = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestError(
                f"the text is not valid Unicode: a lone surrogate at character {error.start}", "send text that can be written as UTF-8"
            ) from None
        if len(raw) > _MAX_BYTES:
            raise RequestError(f"a text of {len(raw)} bytes is too long to tokenize", "at most 256 MiB")
        prefix = [self._bos] if add_bos and self._bos is not None else []
        return prefix + self._tokenize(raw, parse_special)

    def piece(self, token: int) -> bytes:
        """The bytes of one token, perhaps part of a character. Control tokens give b"".

        Raises EngineError for an id outside the vocabulary, and once the model is closed.
        """
        if not 0 <= token < self._n_vocab:
            raise EngineError(f"token id {token} is outside the vocabulary of {self._n_vocab}")
        with self._lock:
            self._check_open()
            n_bytes = self._lib.piece(self._vocab, token, self._piece_buffer)
            if n_bytes < 0:  # minus the size that it needs
                self._piece_buffer = ctypes.create_string_buffer(-n_bytes)
                n_bytes = self._lib.piece(self._vocab, token, self._piece_buffer)
            if n_bytes < 0:
                raise EngineError(f"llama.cpp could not write token {token}: code {n_bytes}")
            return self._piece_buffer.raw[:n_bytes]

    def close(self) -> None:
        """Forbid everything that needs the vocabulary; waits for calls that are running."""
        with self._lock:
            self._is_closed = True

    def _tokenize(self, raw: bytes, parse_special: bool) -> Tokens:
        with self._lock:
            self._check_open()
            # One token per byte is the most that the usual vocabularies need; a few add a space in front.
            buffer = (ctypes.c_int32 * (len(raw) + 16))()
            n_tokens = self._lib.tokenize(self._vocab, raw, buffer, parse_special)
            if -(2**31) < n_tokens < 0:  # minus the size that it needs
                buffer = (ctypes.c_int32 * -n_tokens)()
                n_tokens = self._lib.tokenize(self._vocab, raw, buffer, parse_special)
        if n_tokens < 0:
            raise RequestError(f"llama.cpp could not tokenize a text of {len(raw)} bytes: code {n_tokens}", "send a shorter text")
        tokens = buffer[:n_tokens]
        if tokens and min(tokens) < 0:  # what some vocabularies give for text that they cannot write
            raise RequestError("the model's vocabulary cannot write this text", "leave out what is not in the model's language")
        return tokens

    def _check_open(self) -> None:
        if self._is_closed:
            raise EngineError("the model of this tokenizer is closed")


def _check_bytes(lib: Library, vocab: VocabHandle) -> None:
    """A SentencePiece vocabulary must be able to spell any byte: llama.cpp ends the process where one is missing."""
    texts = {lib.text(vocab, token) for token in range(lib.n_tokens(vocab))}
    missing = [byte for byte in range(256) if b"<0x%02X>" % byte not in texts and bytes([byte]) not in texts]
    if missing:
        raise UnsupportedModelError(f"the vocabulary has no token for {len(missing)} of the 256 bytes", "convert the model again")
