"""The port of a tokenizer: text to ids and ids to bytes."""

from __future__ import annotations

from typing import Protocol

from outrider.types import Tokens


class Tokenizer(Protocol):
    """A model's vocabulary at work. Pure and cheap; safe to use from any thread."""

    @property
    def n_vocab(self) -> int:
        """Number of entries, padding included."""
        ...

    @property
    def end_tokens(self) -> frozenset[int]:
        """Every id that ends a generation (end of text, end of turn)."""
        ...

    @property
    def special_texts(self) -> tuple[str, ...]:
        """Texts that are one token each where `parse_special` is set and ordinary text where it is not."""
        ...

    def encode(self, text: str, *, parse_special: bool, add_bos: bool) -> Tokens:
        """Text to token ids.

        Args:
            text: any string; lone surrogates raise RequestError.
            parse_special: whether text such as "<|im_start|>" becomes its special token (a rendered template) or
                stays text (what a user typed).
            add_bos: prepend the beginning-of-text token, if the file says that this model wants one.
        """
        ...

    def piece(self, token: int) -> bytes:
        """The bytes of one token, perhaps part of a character. Control tokens give b""."""
        ...
