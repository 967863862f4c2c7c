"""Stop strings: find the first one in a text that arrives in pieces, and hold back what could become one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from outrider.errors import ConfigError


class StopMatcher:
    """Finds the stop string that is complete first; among those that end at the same character, the longest.

    The rule looks at characters only, so the answer doesn't depend on how the text was cut into pieces (nor, then, on
    how many tokens a step emitted). One Aho-Corasick automaton (Aho and Corasick 1975) over all stop strings makes the
    time linear in the text, whatever the stop strings are. Not thread-safe.

    Args:
        stops: the strings to stop before; none of them may be empty (ConfigError).
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._depth: list[int] = [0]
        self._stop: list[int] = [0]  # length of the longest stop string that ends in this state; 0: none does
        for stop in stops:
            self._add(stop)
        self._fail = self._failure_links()
        self._state = 0
        self._held: deque[str] = deque()
        self._n_held = 0
        self._front = 0  # characters of the oldest held piece that were released already
        self._matched: str | None = None

    @property
    def matched(self) -> str | None:
        """The stop string that was found, or None so far."""
        return self._matched

    def push(self, text: str) -> str:
        """Take the next piece of text; return what is certainly before any stop string.

        Once a stop string is complete, returns the rest of the text before it and sets `matched`; what follows it in
        `text`, and every later piece, is dropped.
        """
        if self._matched is not None:
            return ""
        if len(self._next) == 1 or not text:
            return text
        self._held.append(text)
        for index, character in enumerate(text):
            self._advance(character)
            length = self._stop[self._state]
            if length:
                end = self._n_held + index + 1
                self._n_held += len(text)
                shown = self._release(end - length)
                self._matched = self._release(length)
                self._held.clear()
                return shown
        self._n_held += len(text)
        return self._release(self._n_held - self._depth[self._state])

    def finish(self) -> str:
        """No more text comes: return what was held back (nothing, after a stop string)."""
        if self._matched is not None:
            return ""
        self._state = 0
        return self._release(self._n_held)

    def _add(self, stop: str) -> None:
        if not stop:
            raise ConfigError("a stop string is empty", "it would stop before the first character: leave it out")
        state = 0
        for character in stop:
            following = self._next[state].get(character)
            if following is None:
                following = len(self._next)
                self._next[state][character] = following
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._stop.append(0)
            state = following
        self._stop[state] = len(stop)

    def _failure_links(self) -> list[int]:
        """For each state the longest proper suffix of its text that is also a state; breadth first."""
        fail = [0] * len(self._next)
        queue = deque(self._next[0].values())
        while queue:
            state = queue.popleft()
            self._stop[state] = self._stop[state] or self._stop[fail[state]]
            for character, following in self._next[state].items():
                fallback = fail[state]
                while fallback and character not in self._next[fallback]:
                    fallback = fail[fallback]
                fail[following] = self._next[fallback].get(character, 0)
                queue.append(following)
        return fail

    def _advance(self, character: str) -> None:
        while self._state and character not in self._next[self._state]:
            self._state = self._fail[self._state]
        self._state = self._next[self._state].get(character, 0)

    def _release(self, count: int) -> str:
        """Take `count` characters off the front of the held pieces, without copying those that stay."""
        parts: list[str] = []
        self._n_held -= count
        while count:
            piece = self._held[0]
            part = piece[self._front : self._front + count]
            parts.append(part)
            count -= len(part)
            self._front += len(part)
            if self._front == len(piece):
                self._held.popleft()
                self._front = 0
        return "".join(parts)
