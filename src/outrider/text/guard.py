"""Keeps what people write in messages from being read as the template's own marks.

A template writes "<|im_start|>" and means the token; someone who asks what "<|im_start|>" is means the text. Once both are in one
rendered string nobody can tell them apart, so such texts are broken by a mark before they are rendered, and put together after.
Everything else is encoded in one piece, exactly as without this: tokens at the seams of a message may join its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from outrider.text.tokenizer import Tokenizer
from outrider.types import Tokens

MARK: Final = "\ufdd0"
"""A code point that Unicode sets aside for such uses and that is no character. Doubled, it stands for itself."""

_MARKS: Final = re.compile(f"{MARK}({MARK}?)")


def guard_message(message: Mapping[str, object], specials: Iterable[str]) -> dict[str, object]:
    """A message with every special text in it broken, but for its role and the types of its parts, which are no text.

    Args:
        message: strings, and dicts and lists of them; anything else stays as it is.
        specials: the tokenizer's `special_texts`.
    """
    return {key: value if key in ("role", "type") else _guarded(value, specials) for key, value in message.items()}


def guard_text(text: str, specials: Iterable[str]) -> str:
    """A text with every special text in it broken."""
    text = text.replace(MARK, MARK + MARK)
    for special in specials:
        if len(special) > 1 and special in text:
            text = text.replace(special, special[0] + MARK + special[1:])
    return text


def _guarded(value: object, specials: Iterable[str]) -> object:
    if isinstance(value, str):
        return guard_text(value, specials)
    if isinstance(value, dict):
        return guard_message(value, specials)
    if isinstance(value, list | tuple):
        return [_guarded(item, specials) for item in value]
    return value


def encode_guarded(tokenizer: Tokenizer, text: str, *, add_bos: bool) -> Tokens:
    """The ids of a text with guarded parts: special texts become their tokens unless they are broken."""
    if MARK not in text:
        return tokenizer.encode(text, parse_special=True, add_bos=add_bos)
    tokens = tokenizer.encode("", parse_special=True, add_bos=add_bos)
    for part in _parts(text, tokenizer.special_texts):
        tokens += tokenizer.encode(_MARKS.sub(r"\1", part), parse_special=MARK not in part, add_bos=False)
    return tokens


def _parts(text: str, specials: Iterable[str]) -> Iterator[str]:
    """The text cut at its special texts; no token reaches across those, so each part can be encoded by itself."""
    longest_first = sorted(specials, key=len, reverse=True)
    if not longest_first:
        yield text
        return
    yield from filter(None, re.split(f"({'|'.join(map(re.escape, longest_first))})", text))
