"""The values that every layer passes around. Nothing here knows a model, a text or an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Logits: TypeAlias = NDArray[np.float32]
"""Raw scores, float32, shape [n_rows, n_vocab] or [n_vocab]; unnormalised, before any sampler."""

TokenIds: TypeAlias = NDArray[np.int64]
"""Token ids, int64, shape [n]."""

Tokens: TypeAlias = list[int]
"""Token ids in order."""

DraftMode: TypeAlias = Literal["argmax", "gumbel", "sample"]
"""How a model drafter picks tokens: argmax (greedy), with the target's match noise, or sampled with its own noise."""

ROOT: Final = -1
"""The parent of a draft node that follows the committed tail (the pending token) directly."""


class TokenKind(StrEnum):
    """How an emitted token came to be; theory.md's names."""

    PLAIN = "plain"  # the step had no draft: ordinary decoding
    ACCEPTED = "accepted"  # a draft token that was kept
    RECOVERED = "recovered"  # the target's replacement after a rejection
    BONUS = "bonus"  # the extra token when every draft token was kept


class StopReason(StrEnum):
    """Why a generation ended."""

    END_OF_GENERATION = "end_of_generation"  # the model's own end token, which is not part of the output
    STOP_STRING = "stop_string"
    LENGTH = "length"  # the token budget
    CONTEXT = "context"  # the context is full
    CANCELLED = "cancelled"


TARGET: Final = "target"
"""`EmittedToken.source` of a token that the target model chose itself."""


@dataclass(frozen=True, slots=True)
class EmittedToken:
    """One token of the output: its id, who proposed it ("target" or a drafter's name) and how it came to be."""

    id: int
    source: str
    kind: TokenKind


@dataclass(frozen=True, slots=True)
class Distribution:
    """A probability distribution over token ids that lists only its support.

    Attributes:
        ids: int64 [n], strictly ascending.
        probs: float64 [n], each > 0, sum 1 up to rounding.
    """

    ids: TokenIds
    probs: NDArray[np.float64]

    def probability(self, token: int) -> float:
        """Probability of one token id; 0.0 outside the support."""
        index = int(np.searchsorted(self.ids, token))
        if index < len(self.ids) and int(self.ids[index]) == token:
            return float(self.probs[index])
        return 0.0

    @property
    def mode(self) -> int:
        """The most probable token; the lowest id among equals."""
        return int(self.ids[int(np.argmax(self.probs))])

    @staticmethod
    def point(token: int) -> Distribution:
        """All mass on one token."""
        return Distribution(np.array([token], dtype=np.int64), np.ones(1))


@dataclass(frozen=True, slots=True)
class Draft:
    """A block of proposed tokens: a chain, or a tree whose nodes come after their parents.

    Attributes, one entry per node:
        tokens: token ids.
        parents: index of the parent node (smaller than the node's own), or ROOT. A chain is (-1, 0, 1, ...).
        sources: name of the drafter that proposed the node.
        probs: the distribution that the token was *sampled* from, or None for a point mass (argmax, match noise or a
            lookup: deterministic given the prefix). The fairness law in docs/concepts hangs on this distinction.
        acceptance: estimated probability that the token is accepted given that it is reached, made *before* it was drawn.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    probs: tuple[Distribution | None, ...] = ()
    acceptance: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        n_nodes = len(self.tokens)
        lengths = (len(self.parents), len(self.sources), len(self.probs), len(self.acceptance))
        if any(length != n_nodes for length in lengths):
            raise ValueError(f"a draft of {n_nodes} tokens has fields of lengths {lengths}")
        if any(not ROOT <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError(f"draft parents {self.parents} must be ROOT or an earlier node")

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether every node follows the one before it."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    @property
    def is_sampled(self) -> bool:
        """Whether any node was drawn at random, so that the fairness law restricts what may be dropped."""
        return any(probs is not None for probs in self.probs)

    def children(self, node: int) -> list[int]:
        """Nodes whose parent is `node` (ROOT allowed), in proposal order."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def path(self, node: int) -> list[int]:
        """Nodes from the first level down to `node`, inclusive; [] for ROOT."""
        nodes: list[int] = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def cut(self, n_nodes: int) -> Draft:
        """The first `n_nodes` nodes. Nodes come after their parents, so what is left is a draft again."""
        if n_nodes >= len(self):
            return self
        return Draft(self.tokens[:n_nodes], self.parents[:n_nodes], self.sources[:n_nodes], self.probs[:n_nodes], self.acceptance[:n_nodes])

    def followed_by(self, other: Draft) -> Draft:
        """This draft with another one below its last node."""
        n_nodes = len(self)
        return Draft(
            self.tokens + other.tokens,
            self.parents + tuple(n_nodes - 1 if parent == ROOT else parent + n_nodes for parent in other.parents),
            self.sources + other.sources,
            self.probs + other.probs,
            self.acceptance + other.acceptance,
        )

    @staticmethod
    def chain(
        tokens: list[int],
        source: str,
        probs: list[Distribution | None] | None = None,
        acceptance: list[float] | None = None,
    ) -> Draft:
        """A draft without branches, all from one drafter."""
        n_nodes = len(tokens)
        return Draft(
            tokens=tuple(tokens),
            parents=tuple(range(-1, n_nodes - 1)),
            sources=(source,) * n_nodes,
            probs=tuple(probs) if probs is not None else (None,) * n_nodes,
            acceptance=tuple(acceptance) if acceptance is not None else (1.0,) * n_nodes,
        )


EMPTY_DRAFT: Final = Draft()


@dataclass(frozen=True, slots=True)
class Verification:
    """What the target made of one draft, before any cut.

    Attributes:
        path: draft nodes that were accepted, in order; a chain from the first level down.
        token: the one token that the target added: the replacement after a rejection, or the bonus.
        kind: RECOVERED if a reached draft token was refused, BONUS if the accepted path ended at a leaf, PLAIN without a draft.
        refused: draft nodes that were reached and refused.
    """

    path: tuple[int, ...]
    token: int
    kind: TokenKind
    refused: tuple[int, ...] = field(default=())
