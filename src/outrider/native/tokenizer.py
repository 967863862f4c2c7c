"""The vocabulary of a GGUF file at work, as llama.cpp reads it: byte pairs through the `tokenizers` library, and SentencePiece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from outrider.errors import RequestError, UnsupportedModelError
from outrider.gguf import TokenType, Vocabulary
from outrider.native.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from outrider.native.sentence_pieces import SentencePieces
from outrider.types import Tokens

_BYTE_PAIRS: Final = "gpt2"
_SENTENCE_PIECE: Final = "llama"
_NO_BYTES: Final = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.UNUSED, TokenType.UNDEFINED)
_WHITE_SPACE: Final = " \t\n\v\f\r"
_NEVER_STRIPS: Final = ("<unk>", "<s>", "<|endoftext|>")
_NOTHING: Final = "a text that no byte-level vocabulary can hold, for it has spaces"
_SPACE: Final = "\u2581"
"""How a SentencePiece vocabulary writes a space."""


def _byte_characters() -> dict[str, int]:
    """The character that stands for each byte in a byte-level vocabulary: itself if printable, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTES: Final = _byte_characters()


@dataclass(frozen=True, slots=True)
class _Special:
    """A token that is cut out of the text before anything else."""

    text: str
    token: int
    only_parsed: bool  # control tokens stay text in what a user typed; tokens that the model's makers added never do
    strips: bool  # white space that follows is dropped


def unknown_tokenizer(vocabulary: Vocabulary) -> str | None:
    """Why `NativeTokenizer` cannot be made of this vocabulary, or None if it can."""
    if vocabulary.model == _SENTENCE_PIECE:
        missing = _byte_ids(vocabulary).count(None)
        return f"the vocabulary has no token for {missing} of the 256 bytes" if missing else None
    if vocabulary.model != _BYTE_PAIRS:
        return f"the native engine does not know the tokenizer '{vocabulary.model}'"
    if _pre(vocabulary) not in PRE_TOKENIZERS:
        return f"the native engine does not know the pre-tokenizer '{vocabulary.pre}'"
    return None


def doubtful_tokenizer(vocabulary: Vocabulary) -> str | None:
    """What a user should know about a vocabulary that can be used, or None if there is nothing to say."""
    if vocabulary.model == _BYTE_PAIRS and _pre(vocabulary) == "default":
        return "the model file does not say how its text is split, so llama.cpp's default is used; a newer conversion may answer better"
    return None


class NativeTokenizer:
    """A `Tokenizer` for byte-level BPE and SentencePiece vocabularies. Safe to use from any thread.

    Args:
        vocabulary: of the model file.

    Raises:
        UnsupportedModelError: another tokenizer family, or a way of cutting text that is not known here.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        if reason := unknown_tokenizer(vocabulary):
            raise UnsupportedModelError(reason, "use --backend llama")
        self._vocabulary = vocabulary
        self._texts = _texts(vocabulary)
        self._is_sentence_piece = vocabulary.model == _SENTENCE_PIECE
        self._ordinary = _sentence_pieces(vocabulary) if self._is_sentence_piece else _byte_pairs(vocabulary)
        # Longest first: llama.cpp cuts out every occurrence of one special token before it looks for a shorter one.
        self._specials = sorted(_specials(vocabulary), key=lambda special: -len(special.text.encode()))

    @property
    def n_vocab(self) -> int:
        """Number of entries, padding included."""
        return len(self._vocabulary)

    @property
    def end_tokens(self) -> frozenset[int]:
        """Every id that ends a generation."""
        return self._vocabulary.end_tokens

    @property
    def special_texts(self) -> tuple[str, ...]:
        """Texts of the control tokens."""
        return tuple(special.text for special in self._specials if special.only_parsed)

    def encode(self, text: str, *, parse_special: bool, add_bos: bool) -> Tokens:
        """Text to token ids; see the port. Raises RequestError for lone surrogates."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestError(f"the text has a lone surrogate at position {error.start}", "send valid Unicode") from None
        vocabulary = self._vocabulary
        tokens: Tokens = [vocabulary.bos] if add_bos and vocabulary.add_bos and vocabulary.bos is not None else []
        spaced = self._is_sentence_piece and vocabulary.add_space_prefix
        after_special = True  # so is the beginning of the text
        for part in self._cut(text, parse_special=parse_special):
            if isinstance(part, int):
                tokens.append(part)
            else:
                tokens += self._ordinary(" " + part if spaced and after_special else part)
            after_special = isinstance(part, int)
        return tokens

    def piece(self, token: int) -> bytes:
        """The bytes of one token, perhaps part of a character. Control tokens give b""."""
        kind = self._vocabulary.types[token]
        text = self._texts[token]
        if kind in _NO_BYTES:
            return b""
        if kind == TokenType.BYTE:
            return bytes([int(text[3:5], 16)])
        if kind == TokenType.NORMAL and self._is_sentence_piece:
            return text.replace(_SPACE, " ").encode()
        if kind == TokenType.NORMAL and all(character in _BYTES for character in text):
            return bytes(_BYTES[character] for character in text)
        return text.encode()

    def _cut(self, text: str, *, parse_special: bool) -> list[str | int]:
        parts: list[str | int] = [text] if text else []
        for special in self._specials:
            if (parse_special or not special.only_parsed) and special.text in text:
                parts = [piece for part in parts for piece in (_split(part, special) if isinstance(part, str) else (part,))]
        return parts


def _split(text: str, special: _Special) -> list[str | int]:
    """Text around every occurrence of a special token, and its id in their place."""
    pieces: list[str | int] = []
    for index, piece in enumerate(text.split(special.text)):
        if index:
            pieces.append(special.token)
        kept = piece.lstrip(_WHITE_SPACE) if index and special.strips else piece
        if kept:
            pieces.append(kept)
    return pieces


def _texts(vocabulary: Vocabulary) -> list[str]:
    """Texts by id; what a converter left empty has a name in llama.cpp."""
    return [text or f"[EMPTY_{token}]" for token, text in enumerate(vocabulary.tokens)]


def _specials(vocabulary: Vocabulary) -> list[_Special]:
    kinds = {TokenType.CONTROL: True, TokenType.UNKNOWN: True, TokenType.USER_DEFINED: False}
    found = zip(_texts(vocabulary), vocabulary.types.tolist(), strict=True)
    strips = vocabulary.strips_after_special
    return [
        _Special(text, token, only_parsed=kinds[kind], strips=strips and text not in _NEVER_STRIPS)
        for token, (text, kind) in enumerate(found)
        if kind in kinds
    ]


def _pre(vocabulary: Vocabulary) -> str:
    return vocabulary.pre or "default"


def _byte_pairs(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    way = PRE_TOKENIZERS[_pre(vocabulary)]
    ids = {text: token for token, text in enumerate(_texts(vocabulary))}
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in vocabulary.merges)]
    # A byte without a token has no id either, but what is left and right of it must not be joined.
    nothing = len(ids)
    ids[_NOTHING] = nothing
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, unk_token=_NOTHING, ignore_merges=way.whole_words))
    tokenizer.pre_tokenizer = _cutter(way)
    is_complete = _BYTES.keys() <= ids.keys()

    def encode(text: str) -> list[int]:
        tokens: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return tokens if is_complete else [token for token in tokens if token != nothing]

    return encode


def _cutter(way: PreTokenizer) -> pre_tokenizers.PreTokenizer:
    cuts = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in way.expressions]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _sentence_pieces(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    ids = {text: token for token, text in enumerate(_texts(vocabulary))}
    scores = [0.0] * len(ids) if vocabulary.scores is None else vocabulary.scores.tolist()
    pieces = SentencePieces(ids, scores, [token for token in _byte_ids(vocabulary) if token is not None])
    return lambda text: pieces.encode(text.replace(" ", _SPACE))


def _byte_ids(vocabulary: Vocabulary) -> list[int | None]:
    """The token that stands for each byte: `<0x41>`, or else `A`."""
    named = {text: token for token, text in enumerate(vocabulary.tokens) if text.startswith("<0x") or (len(text) == 1 and text.isascii())}
    return [named.get(f"<0x{byte:02X}>", named.get(chr(byte))) for byte in range(256)]
