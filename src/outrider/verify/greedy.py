"""Greedy verification: temperature 0."""

from __future__ import annotations

from outrider.types import Draft, Verification
from outrider.verify.verifier import Noise, RowSource
from outrider.verify.walk import follow_target


class GreedyVerifier:
    """Keeps draft tokens that are the target's argmax; the text is that of greedy decoding, whatever was drafted."""

    def verify(self, draft: Draft, rows: RowSource, noise: Noise) -> Verification:
        """Walk to the child that equals the argmax; `noise` is not read."""
        return follow_target(draft, lambda node, _depth: rows.argmax(node))
