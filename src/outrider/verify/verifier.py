"""The port of a verification rule, and what it reads: rows of the target and keyed noise."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from outrider.types import Distribution, Draft, TokenIds, Verification


class Purpose(StrEnum):
    """What a keyed draw is for, so that no two draws of a step share their noise."""

    DRAFT = "draft"  # the drafter samples a token
    ACCEPT = "accept"  # the verifier accepts or refuses a draft token
    RECOVER = "recover"  # the verifier draws a replacement or the bonus


class Noise(Protocol):
    """Every random number of a generation, as a pure function of its key: there is no running stream."""

    def gumbel(self, position: int, ids: TokenIds) -> NDArray[np.float64]:
        """Standard Gumbel noise keyed by (seed, choice, position, token id), float64 [len(ids)]."""
        ...

    def uniform(self, start: int, offset: int, purpose: Purpose) -> float:
        """Uniform in [0, 1), keyed by (seed, choice, start length of the step, offset in the step, purpose)."""
        ...


class RowSource(Protocol):
    """The target's opinion after each draft node; rows are fetched from the model only when asked for.

    `node` is a draft node, or ROOT for the row of the pending token. Each row has been through the target's sampler
    chain for that node's own path (penalties see the path, not the other branches).
    """

    @property
    def start(self) -> int:
        """Number of tokens before the draft: the position of a first-level node, and the key of the step's noise."""
        ...

    def argmax(self, node: int) -> int:
        """The token that greedy decoding takes after `node`; the lowest id among equals."""
        ...

    def distribution(self, node: int) -> Distribution:
        """The target's distribution after `node`."""
        ...


class Verifier(Protocol):
    """A verification rule: pure, so that its law can be tested by enumeration."""

    def verify(self, draft: Draft, rows: RowSource, noise: Noise) -> Verification:
        """Walk the draft from the root and say what is kept and what the target adds."""
        ...
