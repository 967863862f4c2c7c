"""Verification rules: which draft tokens are kept, and what the target adds."""

from __future__ import annotations

from typing import Final

from outrider.errors import ConfigError
from outrider.verify.greedy import GreedyVerifier
from outrider.verify.match import MatchVerifier
from outrider.verify.rejection import RejectionVerifier
from outrider.verify.verifier import Noise, Purpose, RowSource, Verifier

__all__ = [
    "VERIFIERS",
    "GreedyVerifier",
    "MatchVerifier",
    "Noise",
    "Purpose",
    "RejectionVerifier",
    "RowSource",
    "Verifier",
    "make_verifier",
]

VERIFIERS: Final[dict[str, type[Verifier]]] = {
    "greedy": GreedyVerifier,
    "match": MatchVerifier,
    "rejection": RejectionVerifier,
}
"""Rules by name, as `--verify` knows them; greedy is what temperature 0 uses."""


def make_verifier(name: str) -> Verifier:
    """The rule of this name. Raises ConfigError for any other name."""
    if name not in VERIFIERS:
        raise ConfigError(f"there is no verification rule {name!r}", f"choose one of: {', '.join(VERIFIERS)}")
    return VERIFIERS[name]()
