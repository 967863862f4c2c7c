"""Drawing one token from a distribution with keyed noise. Draft and target share these, so equal inputs give equal tokens."""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from outrider.types import Distribution, TokenIds


class GumbelNoise(Protocol):
    """The part of `outrider.verify.verifier.Noise` that Gumbel-max needs; whole, it would close a circle of imports."""

    def gumbel(self, position: int, ids: TokenIds) -> NDArray[np.float64]:
        """Standard Gumbel noise, float64 [len(ids)]."""
        ...


def gumbel_token(distribution: Distribution, noise: GumbelNoise, position: int) -> int:
    """Gumbel-max: argmax of log p + noise keyed by (seed, choice, position, token id); the lowest id among equals.

    Distributed as `distribution`, and coupled: two distributions drawn at one position with one noise agree with
    probability at least (1 - TV) / (1 + TV) (Daliri et al., arXiv 2408.07978).
    """
    if len(distribution.ids) == 1:
        return int(distribution.ids[0])
    scores = np.log(distribution.probs) + noise.gumbel(position, distribution.ids)
    return int(distribution.ids[int(np.argmax(scores))])


def inverse_cdf_token(distribution: Distribution, uniform: float) -> int:
    """The token at which the cumulative probability passes `uniform` in [0, 1)."""
    cumulative = np.cumsum(distribution.probs)
    cumulative /= cumulative[-1]  # ends in exactly 1, so every uniform below 1 finds a token
    # bisect compares with `<` alone, which lets the enumeration tests stand in for the uniform and take both branches
    return int(distribution.ids[bisect_right(cumulative, uniform)])
