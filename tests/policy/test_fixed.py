"""The fixed policy: three rules, each of them optional."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import ConfigError, EngineError
from outrider.policy.fixed import FixedPolicy
from outrider.policy.policy import NO_DRAFT, DraftBudget, StepContext
from outrider.types import EMPTY_DRAFT, Distribution, Draft
from tests.property.strategies import FixedSettings, fixed_settings

ROOMY = StepContext(n_tokens=10, remaining=1000, max_draft=1000, drafters=("model",))
CONTEXTS = st.builds(
    StepContext,
    n_tokens=st.integers(1, 100),
    remaining=st.integers(1, 12),
    max_draft=st.integers(0, 12),
    drafters=st.sampled_from([(), ("model",), ("model", "suffix")]),
)


def policy(settings: FixedSettings) -> FixedPolicy:
    return FixedPolicy(settings.draft_max, settings.draft_p_min, settings.draft_min)


def plan(fixed: FixedPolicy, context: StepContext) -> DraftBudget:
    return fixed.plan([context], "model", [[]])[0]


def select(fixed: FixedPolicy, *drafts: Draft) -> Draft:
    return fixed.select([ROOMY], [drafts])[0]


def chain(length: int, source: str = "model") -> Draft:
    return Draft.chain([1] * length, source)


def test_the_defaults_are_llama_cpps() -> None:
    assert plan(FixedPolicy(), ROOMY) == DraftBudget(max_tokens=16, p_min=0.75, min_tokens=0)


def test_rules_are_passed_on_and_zero_turns_each_off() -> None:
    assert plan(FixedPolicy(32, 0.6, 5), ROOMY) == DraftBudget(32, 0.6, 5)
    assert plan(FixedPolicy(32, 0.0, 0), ROOMY) == DraftBudget(32, 0.0, 0)
    assert plan(FixedPolicy(0, 0.6, 5), ROOMY) == DraftBudget(0)


def test_a_draft_is_never_longer_than_what_can_be_emitted_or_evaluated() -> None:
    assert plan(FixedPolicy(16), StepContext(10, remaining=4, max_draft=100, drafters=("model",))).max_tokens == 3
    assert plan(FixedPolicy(16), StepContext(10, remaining=100, max_draft=7, drafters=("model",))).max_tokens == 7
    assert plan(FixedPolicy(16), StepContext(10, remaining=1, max_draft=100, drafters=("model",))).max_tokens == 0


def test_what_could_never_be_verified_is_not_drafted() -> None:
    context = StepContext(10, remaining=4, max_draft=100, drafters=("model",))
    assert plan(FixedPolicy(16, draft_min=3), context).max_tokens == 3
    assert plan(FixedPolicy(16, draft_min=4), context).max_tokens == 0


@given(fixed_settings(), CONTEXTS)
def test_budgets_keep_every_limit(settings: FixedSettings, context: StepContext) -> None:
    budget = plan(policy(settings), context)
    assert 0 <= budget.max_tokens <= min(settings.draft_max, context.max_draft, context.remaining - 1)
    if budget.max_tokens:
        assert context.drafters
        assert budget.max_tokens >= settings.draft_min
        assert (budget.p_min, budget.min_tokens) == (settings.draft_p_min, settings.draft_min)


@given(st.lists(CONTEXTS, max_size=4), fixed_settings())
def test_generations_are_planned_one_by_one(contexts: list[StepContext], settings: FixedSettings) -> None:
    fixed = policy(settings)
    assert fixed.plan(contexts, "model", [[] for _ in contexts]) == [plan(fixed, context) for context in contexts]


def test_a_drafter_is_asked_only_if_no_earlier_one_proposed_enough() -> None:
    context = StepContext(10, remaining=100, max_draft=100, drafters=("suffix", "model"))
    fixed = FixedPolicy(16, draft_min=2)
    assert fixed.plan([context], "model", [[chain(1, "suffix")]])[0].max_tokens == 16
    assert fixed.plan([context], "model", [[chain(2, "suffix")]])[0] == NO_DRAFT
    assert fixed.plan([context], "unknown", [[]])[0] == NO_DRAFT
    assert select(fixed, chain(1, "suffix"), chain(3)) == chain(3)


def test_prompts_are_read_at_once_unless_nothing_is_ever_drafted() -> None:
    assert FixedPolicy(1).prepares(ROOMY, "model")
    assert not FixedPolicy(0).prepares(ROOMY, "model")


def test_short_drafts_are_dropped() -> None:
    fixed = FixedPolicy(16, draft_min=4)
    assert select(fixed, chain(3)) == EMPTY_DRAFT
    assert select(fixed, chain(4)) == chain(4)
    assert select(FixedPolicy(16, draft_min=0), chain(1)) == chain(1)


def test_the_first_drafter_that_proposed_anything_wins() -> None:
    assert select(FixedPolicy(), EMPTY_DRAFT, chain(2, "suffix"), chain(9)) == chain(2, "suffix")
    assert select(FixedPolicy(), EMPTY_DRAFT) == EMPTY_DRAFT
    assert select(FixedPolicy()) == EMPTY_DRAFT


def test_sampled_tokens_may_not_be_dropped_after_the_draw() -> None:
    probs = Distribution.point(1)
    fair = Draft.chain([1, 1, 1], "model", [None, None, probs])
    unfair = Draft.chain([1, 1], "model", [None, probs])
    fixed = FixedPolicy(16, draft_min=2)
    assert select(fixed, fair) == fair
    for draft in (unfair, Draft.chain([1], "model", [probs])):
        with pytest.raises(EngineError, match="sampled one of its first 2 tokens"):
            select(fixed, draft)
    assert select(FixedPolicy(16, draft_min=0), unfair) == unfair


def test_nothing_is_learnt() -> None:
    fixed = FixedPolicy()
    before = plan(fixed, ROOMY)
    fixed.observe([])
    assert plan(fixed, ROOMY) == before


@pytest.mark.parametrize("settings", [(-1, 0.75, 0), (16, 1.5, 0), (16, -0.1, 0), (16, 0.75, -1), (4, 0.75, 5), (16, float("nan"), 0)])
def test_values_out_of_range_and_contradictions_are_refused(settings: tuple[int, float, int]) -> None:
    with pytest.raises(ConfigError):
        FixedPolicy(*settings)
