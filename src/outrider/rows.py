"""The target's rows of one draft: fetched from the pass in groups, each through the sampler chain of its own path."""

from __future__ import annotations

from typing import Final

import numpy as np

from outrider.generation import Generation
from outrider.model import Capabilities, Evaluation
from outrider.stopwatch import Stopwatch
from outrider.types import ROOT, Distribution, Draft, Logits, Tokens

_GROUP: Final = 8  # rows per request to a deferred head: one pass over the head serves this many at about the price of one


class TargetRows:
    """Implements `RowSource` over one segment of an evaluation.

    Args:
        evaluation: the pass.
        first: the evaluation's number of this segment's first row (the pending token's).
        draft: the nodes; node i is row first + 1 + i.
        generation: whose chain and tokens apply.
        capabilities: of the target; a deferred head is asked for rows in groups, others have them all already.
        watch: model time spent here belongs to "verify".
    """

    def __init__(
        self,
        evaluation: Evaluation,
        first: int,
        draft: Draft,
        generation: Generation,
        capabilities: Capabilities,
        watch: Stopwatch,
    ) -> None:
        self._evaluation = evaluation
        self._first = first
        self._draft = draft
        self._tokens = generation.tokens
        self._chain = generation.request.chain
        self._group = _GROUP if capabilities.deferred_head else 1 + len(draft)
        self._watch = watch
        self._start = len(generation.tokens)
        self._best: dict[int, int] = {}

    @property
    def start(self) -> int:
        """Tokens before the draft."""
        return self._start

    def argmax(self, node: int) -> int:
        """The greedy token after `node`."""
        if self._chain.needs_history:
            return self._chain.argmax(self._row(node), self._history(node))
        if node not in self._best:
            group = range(node, min(node + self._group, len(self._draft)))
            with self._watch.lap("verify"):
                found = self._evaluation.argmax([self._first + 1 + member for member in group])
            self._best.update(zip(group, map(int, np.asarray(found)), strict=True))
        return self._best[node]

    def distribution(self, node: int) -> Distribution:
        """The target's distribution after `node`."""
        return self._chain.distribution(self._row(node), self._history(node))

    def _row(self, node: int) -> Logits:
        with self._watch.lap("verify"):
            row: Logits = self._evaluation.rows([self._first + 1 + node])[0]
        return row

    def _history(self, node: int) -> Tokens:
        if not self._chain.needs_history:
            return []
        path = [] if node == ROOT else self._draft.path(node)
        return self._tokens + [self._draft.tokens[member] for member in path]
