"""The fixed policy: llama.cpp's three rules for draft lengths, each of them optional."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from outrider.config import SpeculationOptions
from outrider.errors import EngineError
from outrider.policy.policy import NO_DRAFT, DraftBudget, StepContext, StepRecord
from outrider.types import EMPTY_DRAFT, Draft


class FixedPolicy:
    """Draft up to a limit, stop when the drafter is unsure, don't verify what came out too short. Never learns.

    Args:
        draft_max: draft at most this many tokens; 0 means: never speculate.
        draft_p_min: stop drafting when the best token is less probable than this; 0 turns the rule off.
        draft_min: don't verify drafts shorter than this; 0 turns the rule off.

    Raises:
        ConfigError: a value out of range, or `draft_min` above `draft_max`.
    """

    def __init__(self, draft_max: int = 16, draft_p_min: float = 0.75, draft_min: int = 0) -> None:
        # the options check their own ranges and contradictions, in one place for command line and library
        options = SpeculationOptions(draft_max=draft_max, draft_p_min=draft_p_min, draft_min=draft_min)
        self._max, self._p_min, self._min = options.draft_max, options.draft_p_min, options.draft_min

    def prepares(self, context: StepContext, drafter: str) -> bool:
        """Always, unless nothing will ever be drafted: whoever fixes the lengths wants drafts from the first step on."""
        return self._max > 0

    def plan(self, contexts: Seq[StepContext], drafter: str, candidates: Seq[Seq[Draft]]) -> list[DraftBudget]:
        """One budget per generation; 0 tokens where an earlier drafter has proposed enough, or no draft could be long enough."""
        return [
            NO_DRAFT if drafter not in context.drafters or any(map(self._is_enough, drafts)) else self._budget(context)
            for context, drafts in zip(contexts, candidates, strict=True)
        ]

    def select(self, contexts: Seq[StepContext], candidates: Seq[Seq[Draft]]) -> list[Draft]:
        """The first draft that is not shorter than `draft_min`.

        Dropping a draft after it was drawn is fair only if it holds no random token. The budget asks drafters to make as
        many tokens deterministic as this rule looks at.

        Raises:
            EngineError: a drafter did not keep to that, and the output would be biased.
        """
        return [self._select(drafts) for drafts in candidates]

    def observe(self, records: Seq[StepRecord]) -> None:
        """Nothing to learn: the rules are fixed."""

    def _budget(self, context: StepContext) -> DraftBudget:
        n_tokens = min(self._max, context.max_draft, context.remaining - 1)
        if n_tokens < max(self._min, 1):
            return NO_DRAFT
        return DraftBudget(n_tokens, self._p_min, self._min)

    def _is_enough(self, draft: Draft) -> bool:
        return len(draft) >= max(self._min, 1)

    def _select(self, drafts: Seq[Draft]) -> Draft:
        for draft in drafts:
            if any(probs is not None for probs in draft.probs[: self._min]):
                raise EngineError(
                    f"drafter {draft.sources[0]!r} sampled one of its first {self._min} tokens, although a shorter draft may be dropped",
                    "this is a bug in that drafter: turn the rule off with --draft-min 0, or don't use that drafter",
                )
        return next(filter(self._is_enough, drafts), EMPTY_DRAFT)
