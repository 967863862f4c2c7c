"""The sampler chain: from a row of logits to the distribution that the next token is drawn from."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Final

import numpy as np
from numpy.typing import NDArray

from outrider.config import SamplingOptions
from outrider.errors import EngineError
from outrider.types import Distribution, Logits, TokenIds

_BLOCK: Final = 64  # logits per block when looking for the best k


class SamplerChain:
    """Penalties, top-k, top-p, min-p, temperature: llama.cpp's default order. Pure: both sides of a verification use it.

    Top-p and min-p look at the softmax of what top-k left, before the temperature. Equal logits are ranked by id, the
    lowest first, in every rule. Probabilities are float64. A logit of -inf is a masked token: it is never drawn.

    Args:
        options: the chain's settings; temperature 0 is greedy.
    """

    def __init__(self, options: SamplingOptions) -> None:
        self._options = options
        changes_logits = options.repeat_penalty != 1.0 or options.presence_penalty != 0.0 or options.frequency_penalty != 0.0
        self._needs_history = changes_logits and options.penalty_last_n > 0

    @property
    def is_greedy(self) -> bool:
        """Temperature 0: the next token is the argmax of the (penalised) logits."""
        return self._options.temperature == 0.0

    @property
    def needs_history(self) -> bool:
        """Whether penalties are on, so that a row depends on the tokens before it, not only on its logits."""
        return self._needs_history

    def argmax(self, logits: Logits, history: Seq[int]) -> int:
        """The greedy token of one row [n_vocab] after penalties; the lowest id among equals.

        Raises EngineError for logits with NaN or +inf, or without any finite value.
        """
        return _best(self._penalised(logits, history))

    def distribution(self, logits: Logits, history: Seq[int]) -> Distribution:
        """The distribution of one row [n_vocab]; at temperature 0 a point mass.

        Args:
            logits: float32 [n_vocab].
            history: the tokens before this position, most recent last; only the last `penalty_last_n` matter. Ids that the
                row does not have (a draft model's vocabulary may be the shorter one) are ignored.

        Raises:
            EngineError: logits with NaN or +inf, or without any finite value.
        """
        row = self._penalised(logits, history)
        best = _best(row)
        if self.is_greedy:
            return Distribution.point(best)
        ids = _top_k(row, self._options.top_k)
        # relative to the best logit: no overflow, and the best token's weight is 1
        scores = row[ids].astype(np.float64) - float(row[best])
        kept = _nucleus(scores, self._options.top_p, self._options.min_p)
        with np.errstate(over="ignore"):  # a tiny temperature sends the others to -inf, which is what it means
            weights = np.exp(scores[kept] / self._options.temperature)
        support = weights > 0.0
        weights = weights[support]
        return Distribution(ids[kept][support], weights / weights.sum())

    def _penalised(self, logits: Logits, history: Seq[int]) -> Logits:
        """The row after repetition, frequency and presence penalties; the row itself when they are off."""
        options = self._options
        if not self._needs_history or not history:
            return logits
        recent, counts = np.unique(np.asarray(history[-options.penalty_last_n :], dtype=np.int64), return_counts=True)
        present = recent < len(logits)
        recent, counts = recent[present], counts[present]
        values = logits[recent].astype(np.float64)
        # dividing a negative logit would make its token likelier
        values = np.where(values > 0.0, values / options.repeat_penalty, values * options.repeat_penalty)
        row = logits.copy()
        row[recent] = values - (counts * options.frequency_penalty + options.presence_penalty)
        return row


def _best(row: Logits) -> int:
    """Argmax, the lowest id among equals; the check of the whole row, since numpy's argmax finds NaN before all else."""
    best = int(np.argmax(row))
    value = float(row[best])
    if np.isfinite(value):
        return best
    if value == -np.inf:
        raise EngineError("no token is allowed: every logit of a row is -inf", "relax what masks tokens, or check the model file")
    raise EngineError(
        f"the model returned a logit that is {value}", "the model file may be damaged, or its numbers overflow on this backend"
    )


def _top_k(row: Logits, k: int) -> TokenIds:
    """Ids of the k largest logits, ascending; among equals at the boundary the lowest. All that aren't masked if k is 0."""
    if k == 0 or k >= len(row):
        return np.flatnonzero(row > -np.inf)
    # the k-th largest of the blocks' maxima can't exceed the k-th largest logit, and leaves few candidates
    n_blocks = len(row) // _BLOCK
    ids: TokenIds
    if n_blocks > k:
        peaks = row[: n_blocks * _BLOCK].reshape(n_blocks, _BLOCK).max(axis=1)
        floor = np.partition(peaks, n_blocks - k)[n_blocks - k]
        ids = np.flatnonzero(row >= floor)
    else:
        ids = np.arange(len(row))
    values = row[ids]
    boundary = np.partition(values, len(values) - k)[len(values) - k]
    above = values > boundary
    equal = np.flatnonzero(values == boundary)[: k - int(np.count_nonzero(above))]
    above[equal] = True
    above &= values > -np.inf
    kept: TokenIds = ids[above]
    return kept


def _nucleus(scores: NDArray[np.float64], top_p: float, min_p: float) -> NDArray[np.intp]:
    """Which scores top-p and then min-p keep, ascending indices.

    `scores` are logits less the largest one, float64 [n]. Both rules keep a prefix of the same ranking, so the cheap one
    may go first: what min-p drops only matters for the total.
    """
    weights = np.exp(scores)
    if top_p >= 1.0:
        return np.flatnonzero(weights >= min_p)
    total = float(weights.sum())
    # all weights below this floor together are less than what top-p leaves out, so the cut lies above it; half for rounding
    floor = max(min_p, 0.5 * (1.0 - top_p) * total / len(weights))
    candidates = np.flatnonzero(weights >= floor)
    ranking = candidates[np.argsort(-scores[candidates], kind="stable")]
    n_kept = int(np.searchsorted(np.cumsum(weights[ranking]), top_p * total)) + 1
    return np.sort(ranking[:n_kept])
