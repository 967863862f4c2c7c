"""The vocabulary of a model, as its file states it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from outrider.errors import UnsupportedModelError
from outrider.gguf.cursor import MALFORMED, shown
from outrider.gguf.header import Header
from outrider.gguf.special_tokens import END_OF_GENERATION, END_OF_MESSAGE, END_OF_TURN, FIM, RENDERED, end_of_generation, find_text
from outrider.gguf.string_array import StringArray
from outrider.gguf.value import ValueType

_PREFIX: Final = "tokenizer.ggml."
_TOKENS: Final = _PREFIX + "tokens"
_TYPES: Final = _PREFIX + "token_type"
_SCORES: Final = _PREFIX + "scores"
_MERGES: Final = _PREFIX + "merges"

_BYTE_PAIR: Final = "gpt2"
_SENTENCE_PIECE: Final = "llama"
_NO_TOKENIZER: Final = ("none", "no_vocab")
_BOS_BY_DEFAULT: Final = frozenset(
    {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken", "chameleon"}
)
_STRIPPING: Final = ("phi-3", "phi3")
_WITHOUT_MERGES: Final = frozenset({"kimi-k2"})
_SENTENCE_PIECE_DEFAULTS: Final = {"bos": 1, "eos": 2, "unknown": 0}
_FIM_KEYS: Final = {
    # field: keys, today's first
    "prefix": ("fim_pre_token_id", "prefix_token_id"),
    "suffix": ("fim_suf_token_id", "suffix_token_id"),
    "middle": ("fim_mid_token_id", "middle_token_id"),
    "padding": ("fim_pad_token_id",),
    "repository": ("fim_rep_token_id",),
    "separator": ("fim_sep_token_id",),
}
_BYTE_TEXT: Final = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class TokenType(IntEnum):
    """What kind of entry a token is, numbered as in the file."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class FimTokens:
    """Ids of the tokens that frame a fill-in-the-middle prompt; None where the vocabulary has none."""

    prefix: int | None = None
    suffix: int | None = None
    middle: int | None = None
    padding: int | None = None
    repository: int | None = None
    separator: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """A checked vocabulary. Compared by identity; `outrider.text.pair` compares two of them by meaning.

    Attributes:
        model: tokenizer family: "gpt2" (byte pairs), "llama" (SentencePiece), ..
        pre: how text is split before byte pairs are merged, such as "qwen2"; None if the file doesn't say.
        tokens: texts as stored, by id; all different, except that several may be empty.
        types: int32 [n], values of TokenType; NORMAL if the file has none. Texts that llama.cpp knows to end a turn or to
            frame code that is filled in are CONTROL whatever the file says.
        scores: float32 [n], finite, or None.
        merges: "left right", best first; both sides and their concatenation are tokens. Empty without byte pairs.
        bos, eos, eot, eom, unknown, padding: ids inside the vocabulary, or None. eot and eom are found by their text
            where the file declares none.
        fim: tokens for filling in the middle, declared or found by their text.
        add_bos, add_eos, add_space_prefix: what encoding a text adds, with the family's defaults filled in.
        chat_template: Jinja source, untrusted, or None.
        end_tokens: every id that ends a generation.
        strips_after_special: whether white space after a special token is dropped; only Phi-3's files want it, by their name.
    """

    model: str
    pre: str | None
    tokens: list[str] = field(repr=False)
    types: NDArray[np.int32] = field(repr=False)
    scores: NDArray[np.float32] | None = field(repr=False)
    merges: list[str] = field(repr=False)
    bos: int | None
    eos: int | None
    eot: int | None
    eom: int | None
    unknown: int | None
    padding: int | None
    fim: FimTokens
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool
    chat_template: str | None = field(repr=False)
    end_tokens: frozenset[int]
    strips_after_special: bool = False

    def __len__(self) -> int:
        return len(self.tokens)


def read_vocabulary(header: Header) -> Vocabulary:
    """Read and check the vocabulary.

    Raises:
        ModelFileError: a key is missing, of the wrong type, or contradicts another: an id beyond the vocabulary, a merge of
            unknown tokens, two tokens of one text.
        UnsupportedModelError: the file holds no tokenizer.
    """
    model = header.string(_PREFIX + "model")
    if model in _NO_TOKENIZER:
        offset = header.offset_of(_PREFIX + "model")
        raise UnsupportedModelError(
            "the file holds no tokenizer", "use a complete model, not an adapter or encoder", path=header.path, offset=offset
        )
    pre = header.string(_PREFIX + "pre", None)
    tokens, ids = _read_tokens(header)
    special = _read_special_ids(header, model, ids)
    fim, fim_by_text = _read_fim(header, ids)
    # llama.cpp also ends at the tokens that only ever frame code that was filled in
    ends = (special["eos"], special["eot"], special["eom"], fim.padding, fim.repository, fim.separator)
    is_sentence_piece = model == _SENTENCE_PIECE
    return Vocabulary(
        model=model,
        pre=pre,
        tokens=tokens,
        types=_corrected(_read_types(header, tokens), ids, fim_by_text),
        scores=_read_scores(header, len(tokens)),
        merges=_read_merges(header, model, pre, ids),
        **special,
        fim=fim,
        add_bos=header.boolean(_PREFIX + "add_bos_token", is_sentence_piece or pre in _BOS_BY_DEFAULT),
        add_eos=header.boolean(_PREFIX + "add_eos_token", default=False),
        add_space_prefix=header.boolean(_PREFIX + "add_space_prefix", is_sentence_piece),
        chat_template=header.string("tokenizer.chat_template", None),
        end_tokens=end_of_generation(ids, frozenset(token for token in ends if token is not None)),
        strips_after_special=is_sentence_piece and any(name in (header.string("general.name", None) or "").lower() for name in _STRIPPING),
    )


def _read_tokens(header: Header) -> tuple[list[str], dict[str, int]]:
    texts = header.strings(_TOKENS)
    tokens = texts.tolist()
    if not tokens:
        raise header.error("the vocabulary is empty", MALFORMED, header.offset_of(_TOKENS))
    ids = dict(zip(tokens, range(len(tokens)), strict=True))
    if len(ids) != len(tokens):
        _check_duplicates(header, texts, tokens)
    return tokens, ids


def _check_duplicates(header: Header, texts: StringArray, tokens: list[str]) -> None:
    # Converters leave holes in a vocabulary as empty texts, which llama.cpp renames.
    first: dict[str, int] = {}
    for token, text in enumerate(tokens):
        name = text or f"[EMPTY_{token}]"
        if name in first:
            raise header.error(f"tokens {first[name]} and {token} are both {shown(name)}", MALFORMED, texts.offset_of(token))
        first[name] = token


def _read_types(header: Header, tokens: list[str]) -> NDArray[np.int32]:
    if _TYPES not in header.metadata:
        return np.full(len(tokens), TokenType.NORMAL, dtype=np.int32)
    types = header.integers(_TYPES)
    _check_length(header, _TYPES, len(types), len(tokens))
    _check_element_type(header, _TYPES, ValueType.INT32)
    if types.min() < min(TokenType) or types.max() > max(TokenType):
        token = int(np.argmax((types < min(TokenType)) | (types > max(TokenType))))
        message = f"type of token {token} is {types[token]}, expected {min(TokenType).value} to {max(TokenType).value}"
        raise header.error(message, MALFORMED, header.offset_of(_TYPES))
    for token in np.flatnonzero(types == TokenType.BYTE).tolist():
        if not _BYTE_TEXT.fullmatch(tokens[token]):
            message = f"token {token} is of type byte, but its text is {shown(tokens[token])}, expected <0x00> to <0xFF>"
            raise header.error(message, MALFORMED, header.strings(_TOKENS).offset_of(token))
    return types


def _read_scores(header: Header, n_tokens: int) -> NDArray[np.float32] | None:
    if _SCORES not in header.metadata:
        return None
    scores = header.numbers(_SCORES)
    _check_length(header, _SCORES, len(scores), n_tokens)
    _check_element_type(header, _SCORES, ValueType.FLOAT32)
    return scores


def _check_length(header: Header, key: str, length: int, n_tokens: int) -> None:
    if length != n_tokens:
        raise header.error(f"key {key!r} has {length} entries for {n_tokens} tokens", MALFORMED, header.offset_of(key))


def _check_element_type(header: Header, key: str, expected: ValueType) -> None:
    value = header.metadata[key]
    if value.element_type is not expected:
        message = f"key {key!r} is of type {value.type_name}, expected array of {expected.name.lower()}"
        raise header.error(message, MALFORMED, value.offset)


def _read_special_ids(header: Header, model: str, ids: Mapping[str, int]) -> dict[str, Any]:
    n_tokens = len(header.strings(_TOKENS))
    defaults = _SENTENCE_PIECE_DEFAULTS if model == _SENTENCE_PIECE else {}
    found: dict[str, int | None] = {}
    for name in ("bos", "eos", "eot", "eom", "unknown", "padding"):
        found[name] = _read_id(header, f"{name}_token_id", n_tokens)
        default = defaults.get(name, n_tokens)
        if found[name] is None and default < n_tokens:
            found[name] = default
    if found["eot"] is None:
        found["eot"] = find_text(ids, END_OF_TURN)
    if found["eom"] is None:
        found["eom"] = find_text(ids, END_OF_MESSAGE)
    return found


def _read_fim(header: Header, ids: Mapping[str, int]) -> tuple[FimTokens, list[int]]:
    """The tokens, and those of them that the file does not declare."""
    n_tokens = len(header.strings(_TOKENS))
    found: dict[str, int | None] = {}
    by_text = []
    for name, keys in _FIM_KEYS.items():
        declared = [_read_id(header, key, n_tokens) for key in keys]  # all are read, so that all are checked
        found[name] = next((token for token in declared if token is not None), None)
        if found[name] is None and (token := find_text(ids, FIM[name])) is not None:
            found[name] = token
            by_text.append(token)
    return FimTokens(**found), by_text


def _corrected(types: NDArray[np.int32], ids: Mapping[str, int], fim_by_text: list[int]) -> NDArray[np.int32]:
    corrected = types.copy()
    corrected[[*fim_by_text, *(ids[text] for text in END_OF_GENERATION if text in ids)]] = TokenType.CONTROL
    corrected[[ids[text] for text in RENDERED if text in ids]] = TokenType.USER_DEFINED
    return corrected


def _read_id(header: Header, name: str, n_tokens: int) -> int | None:
    return header.integer(_PREFIX + name, None, low=0, high=n_tokens - 1)


def _read_merges(header: Header, model: str, pre: str | None, ids: Mapping[str, int]) -> list[str]:
    merges = header.strings(_MERGES, None)
    if merges is None:
        if model == _BYTE_PAIR and pre not in _WITHOUT_MERGES:
            raise header.error(f"key {_MERGES!r} is missing, expected an array of strings", MALFORMED, None)
        return []
    texts = merges.tolist()
    if not _surely_known(texts, ids):
        _check_merges(header, merges, texts, ids)
    return texts


def _surely_known(texts: list[str], ids: Mapping[str, int]) -> bool:
    """Whether every merge is two tokens around the only space, and their concatenation one too.

    The rare merges with more spaces need a closer look; for 150,000 others one by one takes too long.
    """
    if "" in ids or set(map(str.count, texts, repeat(" "))) != {1}:
        return False
    known = ids.__contains__
    return all(map(known, " ".join(texts).split(" "))) and all(map(known, map(str.replace, texts, repeat(" "), repeat(""))))


def _check_merges(header: Header, merges: StringArray, texts: list[str], ids: Mapping[str, int]) -> None:
    for index, text in enumerate(texts):
        left, _, right = text[1:].partition(" ")  # a space at the very start belongs to the left token
        left = text[:1] + left
        for part in (left, right, left + right):
            if not part or part not in ids:
                message = f"merge {index} is {shown(text)}, but {shown(part)} is no token"
                raise header.error(message, MALFORMED, merges.offset_of(index))
