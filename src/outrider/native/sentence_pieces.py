"""SentencePiece's byte-pair encoding: what a vocabulary of scored pieces makes of a text, as llama.cpp does it.

Neighbours are joined while their union is a token: the one with the highest score first, the leftmost of equals. Unlike
merges by rank, equal scores are no rare accident here (padding, added words, files without scores), so the library's
rank-driven merging can't be made equal. Source: Kudo and Richardson 2018 (SentencePiece), section 3.1, for the algorithm.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final

_REMEMBERED_WORDS: Final = 1 << 15
_MAX_REMEMBERED: Final = 64  # characters; longer chunks (runs of one sign, encoded data) seldom come again


class SentencePieces:
    """Text to ids. Safe to use from any thread.

    Args:
        ids: text of every token to its id.
        scores: by id.
        byte_ids: ids of the 256 single bytes, for characters that are no token.
    """

    def __init__(self, ids: Mapping[str, int], scores: list[float], byte_ids: list[int]) -> None:
        self._ids = ids
        self._scores = scores
        self._byte_ids = byte_ids
        # No token crosses a place whose two characters are neighbours in no token, so a text can be cut there. The chunks are
        # about as long as words, and words come again.
        self._neighbours = {pair for text in ids for pair in pairwise(text)}
        self._remembered = lru_cache(_REMEMBERED_WORDS)(self._merge)

    def encode(self, text: str) -> list[int]:
        """The ids of a text whose spaces are written as U+2581 already."""
        tokens: list[int] = []
        for chunk in self._chunks(text):
            tokens += self._remembered(chunk) if len(chunk) <= _MAX_REMEMBERED else self._merge(chunk)
        return tokens

    def _chunks(self, text: str) -> Iterator[str]:
        start = 0
        for index, pair in enumerate(pairwise(text), start=1):
            if pair not in self._neighbours:
                yield text[start:index]
                start = index
        if text:
            yield text[start:]

    def _merge(self, text: str) -> tuple[int, ...]:
        """Join neighbours, best first. `parts[i]` begins at character i and is "" once it was joined to the part before it."""
        parts = list(text)
        before = [*range(-1, len(parts) - 1)]
        after = [*range(1, len(parts)), -1]
        queue: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 <= right:
                union = parts[left] + parts[right]
                token = self._ids.get(union)
                if token is not None:
                    heapq.heappush(queue, (-self._scores[token], left, right, union))

        for index in range(1, len(parts)):
            offer(index - 1, index)
        while queue:
            _, left, right, union = heapq.heappop(queue)
            if not parts[left] or not parts[right] or len(parts[left]) + len(parts[right]) != len(union):
                continue  # one of the two has been joined to something else since
            parts[left], parts[right] = union, ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            offer(before[left], left)
            offer(left, after[left])
        return tuple(token for part in parts if part for token in self._spell(part))

    def _spell(self, part: str) -> Iterator[int]:
        token = self._ids.get(part)
        if token is not None:
            yield token
        else:
            yield from (self._byte_ids[byte] for byte in part.encode())
