"""The port of a policy: decides how much to draft, and which drafts are worth a target row."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Final, Protocol

from outrider.types import EMPTY_DRAFT, Draft, DraftMode, Verification


class GenerationKey:
    """Stands for one generation, so that a policy can keep things about it for as long as it lives."""

    __slots__ = ("__weakref__",)


class StopRule(Protocol):
    """Decides while a draft grows. A new one for each draft; it sees distributions, never the tokens drawn from them."""

    def pays(self) -> bool:
        """Whether one more draft pass is worth its price; asked before each, and a yes means that the pass is made."""
        ...

    def admits(self, confidence: float) -> bool:
        """Whether the next token, whose distribution has this largest probability, joins the draft; asked before it is drawn."""
        ...


@dataclass(frozen=True, slots=True)
class DraftBudget:
    """Limits and stop rule for one draft.

    Attributes:
        max_tokens: the draft has at most this many tokens, the prefix among them; 0 means: don't ask this drafter now.
        p_min: stop before a token whose distribution's largest probability is below this; 0 turns the rule off. It
            looks at the distribution, never at the token that was drawn (the fairness law).
        min_tokens: a draft shorter than this is dropped; 0 turns the rule off. A drafter that samples must make its first
            `min_tokens` tokens deterministic given the prefix, so that dropping them cannot bias the output.
        rule: looked at besides the limits, by drafters whose passes cost something.
        prefix: a chain from another drafter that the draft begins with.
    """

    max_tokens: int
    p_min: float = 0.0
    min_tokens: int = 0
    rule: StopRule | None = None
    prefix: Draft = EMPTY_DRAFT


NO_DRAFT: Final = DraftBudget(0)
"""The budget of a drafter that is not asked."""


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a policy may know about a generation before a step.

    Attributes:
        n_tokens: prompt + emitted tokens.
        remaining: tokens that may still be emitted; at least 1. A draft longer than `remaining - 1` is wasted.
        max_draft: what context and model leave room for.
        drafters: names of the drafters that can propose in this step.
        lags: for each of them, how many tokens of the text its model has not evaluated yet.
        n_emitted: tokens emitted so far.
        mode: how a model drafter picks tokens; under "sample" the fairness law restricts what may be dropped.
        key: the same object in every step of the generation.
    """

    n_tokens: int
    remaining: int
    max_draft: int
    drafters: tuple[str, ...]
    lags: tuple[int, ...] = ()
    n_emitted: int = 0
    mode: DraftMode = "argmax"
    key: GenerationKey = field(default_factory=GenerationKey, compare=False)

    def lag(self, drafter: str) -> int:
        """Tokens that the model of a drafter has not evaluated yet."""
        return self.lags[self.drafters.index(drafter)] if self.lags else 0


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
        context: what the policy was told before the step.
        n_rows: rows of the target pass, those of all generations and of a prompt's last chunk included.
        drafter_ms: how `draft_ms` was spent, by drafter.
    """

    draft: Draft
    n_proposed: int
    verification: Verification
    n_emitted: int
    n_accepted: int
    draft_ms: float
    verify_ms: float
    host_ms: float
    context: StepContext | None = None
    n_rows: int = 0
    drafter_ms: dict[str, float] = field(default_factory=dict)


class Policy(Protocol):
    """Decides limits before drafting, selects after it, learns after the step."""

    def prepares(self, context: StepContext, drafter: str) -> bool:
        """Whether a drafter should read a new prompt before the first step; if not, its first draft pays for that."""
        ...

    def plan(self, contexts: Seq[StepContext], drafter: str, candidates: Seq[Seq[Draft]]) -> list[DraftBudget]:
        """One budget per generation for one drafter, asked just before it proposes.

        Args:
            contexts: the generations of the step.
            drafter: whose turn it is; drafters come in the order of the engine's list, the cheapest first.
            candidates: for each generation, what the drafters before have proposed.
        """
        ...

    def select(self, contexts: Seq[StepContext], candidates: Seq[Seq[Draft]]) -> list[Draft]:
        """Merge, trim or drop: one draft per generation, from those of its drafters.

        Under the fairness law a node that was sampled may be dropped only for reasons known before it was drawn.
        """
        ...

    def observe(self, records: Seq[StepRecord]) -> None:
        """Learn from what the step did."""
        ...
