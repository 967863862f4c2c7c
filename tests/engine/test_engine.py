"""The loop on table models: same text as plain, the invariant after every step, every way a generation can end."""

from __future__ import annotations

from threading import Event

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.drafting.model import ModelDrafter
from outrider.drafting.none import NoDrafter
from outrider.engine import Engine
from outrider.errors import CancelledError, ConfigError, ContextLengthError, EmptyPromptError, EngineError
from outrider.policy.fixed import FixedPolicy
from outrider.testing import TableModel, random_table
from outrider.types import Logits, StopReason, TokenKind
from tests.engine.stacks import N_VOCAB, Stack, plain_tokens, request

policies = st.builds(
    lambda draft_max, p_min, draft_min: FixedPolicy(draft_max, p_min, min(draft_min, draft_max)),
    st.integers(0, 9),
    st.sampled_from([0.0, 0.2, 0.5, 0.9]),
    st.integers(0, 4),
)


@given(
    share=st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0]),
    policy=policies,
    rule=st.sampled_from([("greedy", 0.0), ("match", 0.7), ("match", 1.5)]),
    seed=st.integers(0, 2**32),
    max_tokens=st.integers(1, 40),
    prompt=st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=60),
    max_rows=st.sampled_from([2, 7, 32]),
)
def test_greedy_and_match_give_the_text_of_plain_decoding(
    share: float, policy: FixedPolicy, rule: tuple[str, float], seed: int, max_tokens: int, prompt: list[int], max_rows: int
) -> None:
    wanted = request(rule[0], rule[1], seed, prompt=prompt, max_tokens=max_tokens)
    generation, records = Stack(share, policy, max_rows=max_rows).run(wanted)
    assert [token.id for token in generation.emitted] == plain_tokens(wanted)
    n_cut = sum(record.n_emitted == record.n_accepted for record in records)
    assert len(generation.emitted) == sum(record.n_accepted for record in records) + len(records) - n_cut


@pytest.mark.parametrize(("rule", "temperature"), [("greedy", 0.0), ("match", 1.0), ("rejection", 1.0)])
def test_a_model_drafting_for_itself_is_always_accepted(rule: str, temperature: float) -> None:
    for seed in range(20):
        _, records = Stack(share=0.0).run(request(rule, temperature, seed, max_tokens=50))
        drafted = [record for record in records if len(record.draft)]
        assert drafted
        assert all(not record.verification.refused for record in drafted)
        assert all(record.verification.kind is TokenKind.BONUS for record in drafted)


def test_drafts_save_passes_of_the_target_and_the_first_step_costs_none() -> None:
    stack = Stack(share=0.0, policy=FixedPolicy(4, 0.0, 0))
    generation, records = stack.run(request(max_tokens=21, prompt=[1, 2, 3, 4, 5]))
    assert len(generation.emitted) == 21
    # the prompt's pass emits the first token, then 4 drafted tokens and a bonus per pass
    assert stack.target.passes == [[5], [5], [5], [5], [5]]
    assert [record.n_emitted for record in records] == [1, 5, 5, 5, 5]


def test_a_deferred_head_is_only_asked_for_the_group_that_is_needed() -> None:
    stack = Stack(share=1.0, policy=FixedPolicy(20, 0.0, 0))
    stack.run(request(max_tokens=30))
    assert max(map(sum, stack.target.passes)) > 9
    assert max(len(rows) for rows in stack.target.outputs) <= 8


def test_what_was_drafted_and_kept_is_never_drafted_from_scratch() -> None:
    stack = Stack(share=0.2)
    stack.run(request(prompt=[1, 2, 3, 4], max_tokens=60))
    assert stack.draft is not None
    # after the prompt every pass feeds at most the recovered or bonus token and the one draft token not yet evaluated
    assert stack.draft.passes[0] == [3]
    assert max(map(sum, stack.draft.passes[1:])) <= 2


class TestEnds:
    """Every way a generation can end, with and without drafts."""

    def test_the_end_token_ends_it_and_is_not_part_of_the_output(self) -> None:
        for end in range(N_VOCAB):
            wanted = request(max_tokens=50, end_tokens=frozenset({end}))
            generation, _ = Stack().run(wanted)
            assert [token.id for token in generation.emitted] == plain_tokens(wanted)
            assert end not in [token.id for token in generation.emitted]
            assert generation.stop_reason in (StopReason.END_OF_GENERATION, StopReason.LENGTH)

    @pytest.mark.parametrize("n", [1, 2, 3, 7])
    def test_the_hook_sees_every_token_once_and_ends_it_after_its_own(self, n: int) -> None:
        seen: list[int] = []

        def is_last(token: int) -> bool:
            seen.append(token)
            return len(seen) == n

        generation, _ = Stack(share=0.0).run(request(is_last=is_last))
        assert generation.stop_reason is StopReason.STOP_STRING
        assert seen == [token.id for token in generation.emitted]
        assert len(seen) == n

    @pytest.mark.parametrize("n_context", [8, 9, 10, 13])
    def test_a_full_context_ends_it_where_plain_decoding_would_end(self, n_context: int) -> None:
        wanted = request(max_tokens=None)
        generation, _ = Stack(share=0.0, n_context=n_context).run(wanted)
        assert generation.stop_reason is StopReason.CONTEXT
        assert [token.id for token in generation.emitted] == plain_tokens(wanted, n_context=n_context)
        assert len(generation.tokens) == n_context + 1

    def test_no_budget_means_no_pass_beyond_the_prompt(self) -> None:
        stack = Stack(max_rows=2)
        generation, records = stack.run(request(max_tokens=0))
        assert generation.stop_reason is StopReason.LENGTH
        assert records == []

    def test_closing_the_loop_early_leaves_a_generation_that_can_go_on(self) -> None:
        wanted = request(max_tokens=30)
        stack = Stack()
        generation = stack.engine.open(wanted)
        steps = stack.engine.generate(generation)
        next(steps)
        next(steps)
        steps.close()
        assert generation.sequence.length == len(generation.tokens) - 1
        for _ in stack.engine.generate(generation):
            pass
        assert [token.id for token in generation.emitted] == plain_tokens(wanted)


class TestCancel:
    """A pass that is cancelled or fails changes nothing."""

    @pytest.mark.parametrize("failing_pass", range(8))
    @pytest.mark.parametrize("side", ["target", "draft"])
    def test_it_can_go_on_after_any_pass_was_cancelled(self, failing_pass: int, side: str) -> None:
        wanted = request(max_tokens=40, prompt=[1, 2, 3, 4, 5, 6, 7])
        stack = Stack(max_rows=3)
        model = stack.target if side == "target" else stack.draft
        assert model is not None
        model.failures[failing_pass] = CancelledError("stop")
        generation = stack.engine.open(wanted)
        list(stack.engine.generate(generation))
        assert generation.stop_reason is StopReason.CANCELLED
        generation.stop_reason = None
        list(stack.engine.generate(generation))
        assert [token.id for token in generation.emitted] == plain_tokens(wanted, max_rows=3)
        stack.engine.close(generation)

    def test_a_set_event_stops_before_any_work(self) -> None:
        cancel = Event()
        cancel.set()
        stack = Stack()
        generation = stack.engine.open(request())
        assert list(stack.engine.generate(generation, cancel)) == []
        assert generation.stop_reason is StopReason.CANCELLED

    def test_a_failing_row_drops_the_provisional_rows(self) -> None:
        def table(history: tuple[int, ...]) -> Logits:
            row = random_table(N_VOCAB)(history)
            return row if len(history) <= 6 else np.full_like(row, np.nan)

        engine = Engine(TableModel(table, N_VOCAB), [NoDrafter()], FixedPolicy())
        generation = engine.open(request())
        with pytest.raises(EngineError):
            list(engine.generate(generation))
        assert generation.sequence.length == len(generation.tokens) - 1
        engine.close(generation)


class TestMany:
    """Several generations in one step."""

    @given(seed=st.integers(0, 1000), policy=policies, n=st.integers(2, 5), max_rows=st.sampled_from([8, 40]))
    def test_each_gives_its_own_plain_text(self, seed: int, policy: FixedPolicy, n: int, max_rows: int) -> None:
        wanted = [request("match", 0.9, seed + i, prompt=[i % N_VOCAB] * (1 + 3 * i), max_tokens=5 + 4 * i) for i in range(n)]
        stack = Stack(policy=policy, max_rows=max_rows)
        generations = [stack.engine.open(one) for one in wanted]
        while any(generation.stop_reason is None for generation in generations):
            stack.engine.step(generations)
        assert [[token.id for token in generation.emitted] for generation in generations] == [plain_tokens(one) for one in wanted]
        for generation in generations:
            stack.engine.close(generation)

    def test_they_share_passes_on_target_and_draft(self) -> None:
        stack = Stack(share=0.0)
        generations = [stack.engine.open(request(prompt=[i, i], max_tokens=11)) for i in range(3)]
        while any(generation.stop_reason is None for generation in generations):
            stack.engine.step(generations)
        assert stack.target.passes == [[2, 2, 2], [5, 5, 5], [5, 5, 5]]
        assert stack.draft is not None
        assert all(len(rows) == 3 for rows in stack.draft.passes)

    def test_a_newcomer_may_join_between_steps(self) -> None:
        stack = Stack()
        first, second = request(max_tokens=20), request(prompt=[7, 7], max_tokens=20)
        generations = [stack.engine.open(first)]
        for _ in range(3):
            stack.engine.step(generations)
        generations.append(stack.engine.open(second))
        while any(generation.stop_reason is None for generation in generations):
            stack.engine.step(generations)
        assert [token.id for token in generations[0].emitted] == plain_tokens(first)
        assert [token.id for token in generations[1].emitted] == plain_tokens(second)

    def test_more_generations_than_rows_is_an_error(self) -> None:
        stack = Stack(max_rows=2)
        generations = [stack.engine.open(request()) for _ in range(3)]
        with pytest.raises(EngineError, match="do not fit one pass"):
            stack.engine.step(generations)


class TestTakeOver:
    """A second prompt on the caches of the first."""

    def test_only_the_new_tokens_are_evaluated_on_both_models(self) -> None:
        stack = Stack()
        first = stack.engine.open(request(max_tokens=10))
        list(stack.engine.generate(first))
        prompt = [*first.tokens, 4, 5, 6]
        wanted = request(prompt=prompt, max_tokens=10)
        second = stack.engine.open(wanted, first)
        assert first.is_closed
        list(stack.engine.generate(second))
        assert second.n_prompt_evaluated == 4  # the pending token and the three new ones
        assert second.n_draft_prompt_evaluated <= 4
        assert [token.id for token in second.emitted] == plain_tokens(wanted)

    @given(keep=st.integers(0, 12), more=st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=5))
    def test_any_prompt_gives_its_plain_text(self, keep: int, more: list[int]) -> None:
        stack = Stack()
        first = stack.engine.open(request(max_tokens=10))
        list(stack.engine.generate(first))
        wanted = request(prompt=[*first.tokens[:keep], *more], max_tokens=10)
        second = stack.engine.open(wanted, first)
        list(stack.engine.generate(second))
        assert [token.id for token in second.emitted] == plain_tokens(wanted)
        stack.engine.close(second)

    def test_a_prompt_that_is_refused_leaves_the_first_as_it_was(self) -> None:
        stack = Stack()
        first = stack.engine.open(request(max_tokens=10))
        list(stack.engine.generate(first))
        with pytest.raises(ContextLengthError):
            stack.engine.open(request(prompt=[1] * 500), first)
        assert not first.is_closed
        stack.engine.close(first)


class TestMisuse:
    """Wrong calls are errors, at once."""

    def test_no_drafter(self) -> None:
        with pytest.raises(ConfigError, match="NoDrafter"):
            Engine(TableModel(random_table(4), 4), [], FixedPolicy())

    def test_drafting_for_a_model_that_cannot_drop_rows(self) -> None:
        target, draft = TableModel(random_table(4), 4, rollback="none"), TableModel(random_table(4), 4)
        with pytest.raises(ConfigError, match="--plain"):
            Engine(target, [ModelDrafter(draft, 4)], FixedPolicy())

    def test_plain_decoding_works_on_a_model_that_cannot_drop_rows(self) -> None:
        table = random_table(N_VOCAB, seed=1)
        target = TableModel(table, N_VOCAB, rollback="none", n_context=128)
        engine = Engine(target, [NoDrafter()], FixedPolicy())
        for end in (-1, 4):
            wanted = request(end_tokens=frozenset({end}))
            generation = engine.open(wanted)
            list(engine.generate(generation))
            assert [token.id for token in generation.emitted] == plain_tokens(wanted)
            again = engine.open(wanted, generation)
            list(engine.generate(again))
            assert again.emitted == generation.emitted
            engine.close(again)

    def test_an_empty_prompt(self) -> None:
        with pytest.raises(EmptyPromptError):
            Stack().engine.open(request(prompt=[]))

    @pytest.mark.parametrize("n_tokens", [128, 129, 1000])
    def test_a_prompt_longer_than_the_context_before_any_work(self, n_tokens: int) -> None:
        stack = Stack(n_context=128)
        with pytest.raises(ContextLengthError, match=str(n_tokens)):
            stack.engine.open(request(prompt=[1] * n_tokens))
        assert stack.target.passes == []

    def test_stepping_a_closed_generation(self) -> None:
        stack = Stack()
        generation = stack.engine.open(request())
        stack.engine.close(generation)
        stack.engine.close(generation)
        with pytest.raises(EngineError, match="closed"):
            stack.engine.step([generation])


def test_a_draft_model_with_a_short_context_rests_and_says_why() -> None:
    wanted = request(max_tokens=60)
    generation, records = Stack(share=0.0, n_draft_context=16).run(wanted)
    assert [token.id for token in generation.emitted] == plain_tokens(wanted)
    assert generation.resting == {"model": "the draft model's context of 16 tokens is full"}
    assert any(len(record.draft) for record in records)
    assert not len(records[-1].draft)


def test_times_are_split_between_draft_verify_and_host() -> None:
    ticks = iter(range(1000))
    table = random_table(N_VOCAB)
    drafter = ModelDrafter(TableModel(table, N_VOCAB), N_VOCAB)
    engine = Engine(TableModel(table, N_VOCAB), [drafter], FixedPolicy(2, 0.0, 0), clock=lambda: float(next(ticks)))
    generation = engine.open(request(max_tokens=4))
    for record in engine.generate(generation):
        assert record.draft_ms > 0
        assert record.verify_ms > 0
        assert record.host_ms > 0


@pytest.mark.parametrize("rollback", ["truncate", "none"])
@pytest.mark.parametrize("at", [0, 1, 2, 7, 8])
def test_a_step_whose_tokens_nobody_takes_has_not_happened(at: int, rollback: str) -> None:
    calls = 0

    def refuse(token: int) -> bool:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise EngineError("no")
        return False

    stack = Stack(share=0.1 if rollback == "truncate" else None)
    stack.target.with_capabilities(rollback=rollback)
    generation = stack.engine.open(request(is_last=refuse))
    with pytest.raises(EngineError, match="no"):
        list(stack.engine.generate(generation))
    assert len(generation.tokens) == 3 + len(generation.emitted)
    if rollback == "none":
        assert generation.is_closed
        assert not stack.target.open_sequences
        return
    list(stack.engine.generate(generation))
    assert [token.id for token in generation.emitted] == plain_tokens(request())
    assert generation.n_prompt_evaluated == 3


def test_a_cache_that_a_failed_pass_took_along_is_read_anew() -> None:
    stack = Stack()
    first = stack.engine.open(request())
    list(stack.engine.generate(first))

    class Lost:
        @property
        def length(self) -> int:
            raise EngineError("the sequence was lost in a failed pass")

        def close(self) -> None:
            lost.close()

    lost, first.sequence = first.sequence, Lost()  # type: ignore[assignment]
    again = stack.engine.open(request(), first)
    list(stack.engine.generate(again))
    assert [token.id for token in again.emitted] == plain_tokens(request())
    stack.engine.close(again)
    assert not stack.target.open_sequences


def test_no_more_is_drafted_than_can_be_emitted() -> None:
    stack = Stack(share=0.0, policy=FixedPolicy(9, 0.0, 0))
    _, records = stack.run(request(max_tokens=6))
    assert [len(record.draft) for record in records] == [0, 4]  # the target adds one to each


def test_a_drafter_that_rested_for_a_long_text_drafts_for_a_shorter_one() -> None:
    stack = Stack(share=0.0, n_draft_context=20)
    first = stack.engine.open(request())
    list(stack.engine.generate(first))
    assert "context of 20 tokens" in first.resting["model"]
    again = stack.engine.open(request(max_tokens=8), first)
    records = list(stack.engine.generate(again))
    assert sum(len(record.draft) for record in records) > 0
    assert not again.resting
    stack.engine.close(again)
