"""The port of a policy: decides how much to draft, and which drafts are worth a target row."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

from outrider.types import Draft, Verification


@dataclass(frozen=True, slots=True)
class DraftBudget:
    """Limits and stop rule for one draft.

    Attributes:
        max_tokens: draft at most this many; 0 means: don't speculate in this step.
        p_min: stop before a token whose distribution's largest probability is below this; 0 turns the rule off. It
            looks at the distribution, never at the token that was drawn (the fairness law).
        min_tokens: a draft shorter than this is dropped; 0 turns the rule off. A drafter that samples must make its first
            `min_tokens` tokens deterministic given the prefix, so that dropping them cannot bias the output.
    """

    max_tokens: int
    p_min: float = 0.0
    min_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a policy may know about a generation before a step.

    Attributes:
        n_tokens: prompt + emitted tokens.
        remaining: tokens that may still be emitted; at least 1. A draft longer than `remaining - 1` is wasted.
        max_draft: what context and model leave room for.
        drafters: names of the drafters that can propose in this step.
    """

    n_tokens: int
    remaining: int
    max_draft: int
    drafters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step of one generation did and cost; metrics and policies learn from it.

    Times are in milliseconds and belong to the whole step, shared by all generations in it.

    Attributes:
        draft: what was sent to the target.
        n_proposed: tokens proposed before the policy selected.
        verification: the target's answer, before any cut.
        n_emitted: tokens that the step emitted, after the cut.
        n_accepted: how many of them were draft tokens.
        draft_ms, verify_ms, host_ms: the step's time split.
    """

    draft: Draft
    n_proposed: int
    verification: Verification
    n_emitted: int
    n_accepted: int
    draft_ms: float
    verify_ms: float
    host_ms: float


class Policy(Protocol):
    """Decides limits before drafting, selects after it, learns after the step."""

    def plan(self, contexts: Seq[StepContext]) -> list[DraftBudget]:
        """One budget per generation of the step."""
        ...

    def select(self, contexts: Seq[StepContext], candidates: Seq[Seq[Draft]]) -> list[Draft]:
        """Merge, trim or drop: one draft per generation, from those of its drafters.

        Under the fairness law a node that was sampled may be dropped only for reasons known before it was drawn.
        """
        ...

    def observe(self, records: Seq[StepRecord]) -> None:
        """Learn from what the step did."""
        ...
