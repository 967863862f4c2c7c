"""From token ids to text that may be shown: whole characters only, and nothing of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from outrider.errors import EngineError
from outrider.text.stop import StopMatcher
from outrider.text.tokenizer import Tokenizer


class TextStream:
    """The text of one generation, token by token.

    Bytes of an incomplete character are held until it is complete; bytes that can't be UTF-8 become U+FFFD, exactly as
    decoding all bytes at once would have it. Text that may be the beginning of a stop string is held too. The time is
    linear in the text. One generation, one thread.

    Args:
        tokenizer: gives the bytes of each token.
        stops: strings to stop before, none of them empty (ConfigError).
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._matcher = StopMatcher(stops)
        self._token_texts: list[str] = []
        self._shown: list[str] = []
        self._n_shown = 0
        self._n_decoded = 0
        self._finished = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string is complete; no token may be pushed after it."""
        return self._matcher.matched is not None

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the text, if one did."""
        return self._matcher.matched

    @property
    def text(self) -> str:
        """What was shown so far: everything that `push` and `finish` returned."""
        self._shown = ["".join(self._shown)]
        return self._shown[0]

    @property
    def token_texts(self) -> list[str]:
        """One text per pushed token, in order; after `finish`, or a stop string, they concatenate to `text`.

        A token that ends inside a character gives "" (the token that completes it has the character); a final
        incomplete character is the U+FFFD of the last token. Characters of a stop string belong to no token.
        """
        return list(self._token_texts)

    def push(self, token: int) -> str:
        """Take the next token; return the text that may be shown now, often "".

        Raises:
            EngineError: the stream has ended, by a stop string or by `finish`.
        """
        if self.stopped or self._finished:
            raise EngineError(f"token {token} came after the end of its text", "this is a bug in Outrider: please report it")
        return self._take(self._decoder.decode(self._tokenizer.piece(token)), new_token=True)

    def finish(self) -> str:
        """No more tokens come: return what was held back. After a stop string that is nothing; a second call neither."""
        if self.stopped or self._finished:
            return ""
        self._finished = True
        rest = self._decoder.decode(b"", final=True)
        shown = self._take(rest, new_token=False) if rest else ""
        return shown if self.stopped else shown + self._show(self._matcher.finish())

    def _take(self, text: str, *, new_token: bool) -> str:
        if new_token:
            self._token_texts.append(text)
        else:
            self._token_texts[-1] += text
        self._n_decoded += len(text)
        shown = self._show(self._matcher.push(text))
        if self.stopped:
            self._trim(self._n_decoded - self._n_shown)
        return shown

    def _show(self, text: str) -> str:
        if text:
            self._shown.append(text)
            self._n_shown += len(text)
        return text

    def _trim(self, excess: int) -> None:
        """Take the last `excess` characters off the tokens' texts."""
        index = len(self._token_texts) - 1
        while excess:
            text = self._token_texts[index]
            kept = text[: max(0, len(text) - excess)]
            excess -= len(text) - len(kept)
            self._token_texts[index] = kept
            index -= 1
