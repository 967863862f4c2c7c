"""Rejection sampling: keeps the target's law exactly, and accepts as often as a token-wise rule with its own noise can."""

from __future__ import annotations

import numpy as np

from outrider.errors import EngineError
from outrider.sampling.draw import inverse_cdf_token
from outrider.types import ROOT, Distribution, Draft, Verification
from outrider.verify.verifier import Noise, Purpose, RowSource
from outrider.verify.walk import children_by_node, target_kind


class RejectionVerifier:
    """Accepts draft token x with probability min(1, target(x) / draft(x)), and replaces a refused one from the residual.

    Siblings of a tree are tried in proposal order; after each refusal the residual (target - draft)+, renormalised, takes
    the target's place for the next one. A token without `probs` is a point mass: accepted with the residual's probability
    of it, and zeroed when refused. Sources: Leviathan et al. (arXiv 2211.17192) and Chen et al. (arXiv 2302.01318) for a
    chain, Miao et al. (arXiv 2305.09781) for siblings.

    Acceptance draws are keyed by (start, draft node), the one draw from a distribution by (start, accepted length).
    """

    def verify(self, draft: Draft, rows: RowSource, noise: Noise) -> Verification:
        """Walk the draft.

        Raises:
            EngineError: a sampled token has no probability in the distribution that it is said to come from.
        """
        children = children_by_node(draft)
        path: list[int] = []
        refused: list[int] = []
        node = ROOT
        while True:
            residual = rows.distribution(node)
            accepted = None
            for child in children.get(node, []):
                drawn_from = _draft_distribution(draft, child)
                if noise.uniform(rows.start, child, Purpose.ACCEPT) < acceptance(residual, drawn_from, draft.tokens[child]):
                    accepted = child
                    break
                residual = subtract(residual, drawn_from)
                refused.append(child)
            if accepted is None:
                token = inverse_cdf_token(residual, noise.uniform(rows.start, len(path), Purpose.RECOVER))
                return Verification(tuple(path), token, target_kind(draft, at_leaf=node not in children), tuple(refused))
            path.append(accepted)
            node = accepted


def acceptance(target: Distribution, draft: Distribution, token: int) -> float:
    """Probability of keeping a draft token: min(1, target(token) / draft(token)).

    Raises EngineError if the draft's distribution does not have the token: that drafter's account of itself is wrong.
    """
    draft_prob = draft.probability(token)
    if draft_prob <= 0.0:
        raise EngineError(
            f"draft token {token} is not in the distribution that it was drawn from", "this is a bug in the drafter that proposed it"
        )
    return min(1.0, target.probability(token) / draft_prob)


def subtract(target: Distribution, draft: Distribution) -> Distribution:
    """The residual (target - draft)+, renormalised.

    Where rounding leaves nothing (target and draft equal but for the last bit, and yet refused: an event of probability
    1e-16), it is the target itself: any token of its support is as good there, and none outside it can appear.
    """
    places = np.searchsorted(target.ids, draft.ids)
    places[places == len(target.ids)] = 0  # beyond the last id: any place will do, the comparison below drops it
    shared = target.ids[places] == draft.ids
    probs = target.probs.copy()
    probs[places[shared]] -= draft.probs[shared]
    support = probs > 0.0
    total = float(probs[support].sum())
    if total <= 0.0:
        return target
    return Distribution(target.ids[support], probs[support] / total)


def _draft_distribution(draft: Draft, node: int) -> Distribution:
    """What the token of a node was drawn from; a point mass if it was not drawn at random."""
    probs = draft.probs[node]
    return Distribution.point(draft.tokens[node]) if probs is None else probs
