"""Match verification: the target draws its own token with keyed noise, and the draft is kept as far as it agrees."""

from __future__ import annotations

from outrider.sampling.draw import gumbel_token
from outrider.types import Draft, Verification
from outrider.verify.verifier import Noise, RowSource
from outrider.verify.walk import follow_target


class MatchVerifier:
    """Keeps draft tokens that equal what plain decoding with the same noise draws at that position.

    The target's token depends on its distribution, the position and the noise alone, so the text equals plain decoding
    with that seed, for any draft and any policy. How often a draft agrees is the business of its drafter: one that draws
    with the same noise agrees with probability at least (1 - TV) / (1 + TV) (Daliri et al., arXiv 2408.07978).
    """

    def verify(self, draft: Draft, rows: RowSource, noise: Noise) -> Verification:
        """Walk to the child that equals the Gumbel-max token of each position."""
        return follow_target(draft, lambda node, depth: gumbel_token(rows.distribution(node), noise, rows.start + depth))
