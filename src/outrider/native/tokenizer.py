"""The vocabulary of a GGUF file at work, through the `tokenizers` library: byte-pair encoding as llama.cpp does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from outrider.errors import RequestError, UnsupportedModelError
from outrider.gguf import TokenType, Vocabulary
from outrider.types import Tokens

# How text is cut before pairs are merged, by the file's `tokenizer.ggml.pre`. The names and expressions are facts of the models'
# own tokenizer files; one expression after the other is applied to what the one before left whole.
_CONTRACTIONS: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"


def _modern(digits: str) -> str:
    """The expression that GPT-4's tokenizer brought; models differ in how many digits go together."""
    return _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


_PRE_TOKENIZERS: Final = {
    "qwen2": (_modern(r"\p{N}"),),
    "llama-bpe": (_modern(r"\p{N}{1,3}"),),
    "llama3": (_modern(r"\p{N}{1,3}"),),
    "smollm": (r"\p{N}", _GPT2),
    "gpt-2": (_GPT2,),
}
_WHOLE_WORDS: Final = ("llama-bpe", "llama3")
"""Where a word that is a token as it stands is never built from pairs."""


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


def unknown_tokenizer(vocabulary: Vocabulary) -> str | None:
    """Why `NativeTokenizer` cannot be made of this vocabulary, or None if it can."""
    if vocabulary.model != "gpt2":
        return f"the native engine does not know the tokenizer '{vocabulary.model}'"
    if (vocabulary.pre or "") not in _PRE_TOKENIZERS:
        return f"the native engine does not know the pre-tokenizer '{vocabulary.pre}'"
    return None


class NativeTokenizer:
    """A `Tokenizer` for byte-level BPE vocabularies. Safe to use from any thread.

    Args:
        vocabulary: of the model file.

    Raises:
        UnsupportedModelError: another tokenizer family, or a way of cutting text that is not known here.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        if reason := unknown_tokenizer(vocabulary):
            raise UnsupportedModelError(reason, "use --backend llama")
        expressions = _PRE_TOKENIZERS[vocabulary.pre or ""]
        self._vocabulary = vocabulary
        self._tokenizer = _byte_pairs(vocabulary, expressions)
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

    def encode(self, text: str, *, parse_special: bool, add_bos: bool) -> Tokens:
        """Text to token ids; see the port. Raises RequestError for lone surrogates."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestError(f"the text has a lone surrogate at position {error.start}", "send valid Unicode") from None
        vocabulary = self._vocabulary
        tokens: Tokens = [vocabulary.bos] if add_bos and vocabulary.add_bos and vocabulary.bos is not None else []
        for part in self._cut(text, parse_special=parse_special):
            if isinstance(part, int):
                tokens.append(part)
            else:
                tokens += self._tokenizer.encode(part, add_special_tokens=False).ids
        return tokens

    def piece(self, token: int) -> bytes:
        """The bytes of one token, perhaps part of a character. Control tokens give b""."""
        kind = _kind(self._vocabulary, token)
        text = self._vocabulary.tokens[token]
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.UNUSED):
            return b""
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
        if piece:
            pieces.append(piece)
    return pieces


def _kind(vocabulary: Vocabulary, token: int) -> int:
    """Its type; what ends a generation is a control token, whatever the file says (some call `</s>` normal)."""
    return int(TokenType.CONTROL) if token in vocabulary.end_tokens else int(vocabulary.types[token])


def _specials(vocabulary: Vocabulary) -> list[_Special]:
    kinds = {TokenType.CONTROL: True, TokenType.UNKNOWN: True, TokenType.USER_DEFINED: False}
    found = ((text, token, _kind(vocabulary, token)) for token, text in enumerate(vocabulary.tokens) if text)
    return [_Special(text, token, only_parsed=kinds[TokenType(kind)]) for text, token, kind in found if kind in kinds]


def _byte_pairs(vocabulary: Vocabulary, expressions: tuple[str, ...]) -> Tokenizer:
    ids = {text: token for token, text in enumerate(vocabulary.tokens) if text}
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in vocabulary.merges)]
    model = models.BPE(vocab=ids, merges=merges, ignore_merges=vocabulary.pre in _WHOLE_WORDS)
    tokenizer = Tokenizer(model)
    cuts = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer
