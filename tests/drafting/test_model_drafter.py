"""The model drafter: its cache, its stop rules, its modes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from outrider.config import SamplingOptions
from outrider.drafting.drafter import DraftJob, DraftOutcome
from outrider.drafting.model import ModelDrafter, ModelDraftState
from outrider.errors import EngineError
from outrider.policy.policy import DraftBudget
from outrider.sampling.chain import SamplerChain
from outrider.sampling.noise import KeyedNoise
from outrider.testing import TableModel, random_table
from outrider.types import EMPTY_DRAFT, Draft, DraftMode, TokenKind, Verification

N_VOCAB = 9
CHAIN = SamplerChain(SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0))


def job(state: ModelDraftState, tokens: list[int], mode: DraftMode = "argmax", **budget: object) -> DraftJob:
    limits = DraftBudget(**({"max_tokens": 4} | budget))  # type: ignore[arg-type]
    return DraftJob(state, tokens, limits, mode, CHAIN, KeyedNoise(5))


@pytest.fixture
def model() -> TableModel:
    return TableModel(random_table(N_VOCAB, seed=3), N_VOCAB, n_context=20, max_rows=6)


@pytest.fixture
def drafter(model: TableModel) -> ModelDrafter:
    return ModelDrafter(model, N_VOCAB)


def greedy(model: TableModel, tokens: list[int], n: int) -> list[int]:
    text = list(tokens)
    for _ in range(n):
        text.append(int(np.argmax(model.table(tuple(text)))))
    return text[len(tokens) :]


def test_argmax_drafts_are_the_model_s_own_greedy_text(model: TableModel, drafter: ModelDrafter) -> None:
    state = drafter.open([1, 2], None)
    (draft,) = drafter.propose([job(state, [1, 2])])
    assert list(draft.tokens) == greedy(model, [1, 2], 4)
    assert draft.sources == ("model",) * 4
    assert not draft.is_sampled


def test_it_stops_before_the_first_token_below_p_min(model: TableModel, drafter: ModelDrafter) -> None:
    state = drafter.open([1, 2], None)
    (free,) = drafter.propose([job(state, [1, 2], max_tokens=8)])
    for p_min in (*free.acceptance, 1.0):
        (draft,) = drafter.propose([job(state, [1, 2], max_tokens=8, p_min=p_min)])
        unsure = next((i for i, p in enumerate(free.acceptance) if p < p_min), 8)
        assert list(draft.tokens) == list(free.tokens[:unsure])


def test_acceptance_is_the_largest_probability_before_the_draw(model: TableModel, drafter: ModelDrafter) -> None:
    state = drafter.open([4], None)
    (draft,) = drafter.propose([job(state, [4], "sample", max_tokens=1)])
    logits = model.table((4,)).astype(float)
    assert draft.acceptance[0] == pytest.approx(np.exp(logits).max() / np.exp(logits).sum())


def test_sampled_drafts_carry_their_distribution_and_the_droppable_ones_do_not(drafter: ModelDrafter) -> None:
    state = drafter.open([1], None)
    (draft,) = drafter.propose([job(state, [1], "sample", min_tokens=2)])
    assert [probs is None for probs in draft.probs] == [True, True, False, False]


def test_gumbel_drafts_are_repeatable_whatever_was_drafted_before(drafter: ModelDrafter) -> None:
    state = drafter.open([1], None)
    (first,) = drafter.propose([job(state, [1], "gumbel")])
    drafter.propose([job(state, [1, 5, 6], "gumbel")])
    (second,) = drafter.propose([job(state, [1], "gumbel")])
    assert first == second


def test_ids_that_the_target_does_not_know_are_never_drafted(model: TableModel) -> None:
    drafter = ModelDrafter(model, 3)
    state = drafter.open([1], None)
    for mode in ("argmax", "gumbel", "sample"):
        for start in range(3):
            (draft,) = drafter.propose([job(state, [start], mode, max_tokens=8)])  # type: ignore[arg-type]
            assert len(draft) == 8
            assert max(draft.tokens) < 3


def test_nothing_is_drafted_after_an_end_token(model: TableModel) -> None:
    (end, *_) = greedy(model, [1, 2], 1)
    drafter = ModelDrafter(model, N_VOCAB, frozenset({end}))
    (draft,) = drafter.propose([job(drafter.open([1, 2], None), [1, 2])])
    assert draft.tokens == (end,)


@pytest.mark.parametrize("n_tokens", [1, 5, 6, 7, 13, 19, 20])
def test_prompts_of_any_length_are_caught_up_in_chunks(model: TableModel, drafter: ModelDrafter, n_tokens: int) -> None:
    tokens = [i % N_VOCAB for i in range(n_tokens)]
    state = drafter.open(tokens, None)
    (draft,) = drafter.propose([job(state, tokens)])
    n_room = min(4, 20 - n_tokens + 1)
    assert list(draft.tokens) == greedy(model, tokens, n_room)
    assert max(map(sum, model.passes)) <= 6


def test_it_rests_beyond_its_context(drafter: ModelDrafter) -> None:
    tokens = [1] * 21
    state = drafter.open(tokens, None)
    assert drafter.propose([job(state, tokens)])[0].tokens == ()
    assert drafter.resting(state, 21) == "the draft model's context of 20 tokens is full"
    drafter.reopen(state, [1] * 5, None, 3)
    assert drafter.resting(state, 3) is None


@pytest.mark.parametrize("tokens", [[8], [1, 8, 2], [1, 2, 8]])
def test_it_rests_on_a_text_that_it_cannot_read(model: TableModel, tokens: list[int]) -> None:
    drafter = ModelDrafter(model, 8)
    state = drafter.open(tokens, None)
    assert drafter.prepare(state, tokens) == 0
    assert drafter.propose([job(state, tokens)])[0].tokens == ()
    assert drafter.resting(state, len(tokens)) == "the text has token 8, which the draft model does not know"
    assert model.passes == []


def test_it_rests_when_its_cache_is_full() -> None:
    model = TableModel(random_table(N_VOCAB), N_VOCAB, n_context=20, n_cells=5)
    drafter = ModelDrafter(model, N_VOCAB)
    state = drafter.open([1], None)
    assert len(drafter.propose([job(state, [1, 2])])[0]) == 4
    assert drafter.propose([job(state, [1, 2, 3, 4])])[0].tokens == ()
    assert drafter.resting(state, 4) == "the draft model's KV cache is full"


def test_jobs_share_passes_even_when_their_backlogs_need_several(model: TableModel, drafter: ModelDrafter) -> None:
    states = [drafter.open([1], None) for _ in range(3)]
    texts = [[1], [1, 2, 3, 4], [5, 6, 7]]
    drafts = drafter.propose([job(state, text) for state, text in zip(states, texts, strict=True)])
    assert [list(draft.tokens) for draft in drafts] == [greedy(model, text, 4) for text in texts]
    assert model.passes == [[1, 4], [3], [1, 1, 1], [1, 1, 1], [1, 1, 1]]


def test_the_lag_is_what_the_next_draft_has_to_read_besides_its_own_tokens(drafter: ModelDrafter) -> None:
    state = drafter.open([1, 2, 3], None)
    assert drafter.lag(state, 3) == 3
    drafter.prepare(state, [1, 2, 3])
    assert drafter.lag(state, 3) == 1
    (draft,) = drafter.propose([job(state, [1, 2, 3])])
    other = (draft.tokens[2] + 1) % N_VOCAB
    kept = [1, 2, 3, *draft.tokens[:2], other]
    drafter.resolve(state, DraftOutcome(draft, Verification((0, 1), other, TokenKind.RECOVERED), kept))
    assert drafter.lag(state, 6) == 1


@dataclass
class Rule:
    """Pays for so many passes, and admits tokens down to a confidence; notes what it was asked."""

    n_passes: int
    least: float = 0.0
    asked: list[float] = field(default_factory=list)

    def pays(self) -> bool:
        self.n_passes -= 1
        return self.n_passes >= 0

    def admits(self, confidence: float) -> bool:
        self.asked.append(confidence)
        return confidence >= self.least


@pytest.mark.parametrize("n_passes", [0, 1, 3, 9])
def test_the_stop_rule_is_asked_before_each_pass_and_each_token(model: TableModel, drafter: ModelDrafter, n_passes: int) -> None:
    state = drafter.open([1, 2], None)
    rule = Rule(n_passes)
    (draft,) = drafter.propose([job(state, [1, 2], rule=rule)])
    assert list(draft.tokens) == greedy(model, [1, 2], min(n_passes, 4))
    assert len(model.passes) == min(n_passes, 4)
    assert tuple(rule.asked) == draft.acceptance


def test_a_token_that_the_rule_does_not_admit_ends_the_draft(drafter: ModelDrafter) -> None:
    state = drafter.open([1, 2], None)
    (free,) = drafter.propose([job(state, [1, 2], max_tokens=8)])
    least = sorted(free.acceptance)[2]
    (draft,) = drafter.propose([job(state, [1, 2], max_tokens=8, rule=Rule(9, least))])
    assert draft.tokens == free.tokens[: next(i for i, p in enumerate(free.acceptance) if p < least)]


@pytest.mark.parametrize("mode", ["argmax", "gumbel", "sample"])
def test_a_prefix_is_read_with_the_text_and_continued(mode: DraftMode, model: TableModel, drafter: ModelDrafter) -> None:
    prefix = Draft.chain([4, 5], "suffix")
    state, other = drafter.open([1, 2], None), drafter.open([1, 2], None)
    (draft,) = drafter.propose([job(state, [1, 2], mode, prefix=prefix, max_tokens=4)])
    assert draft.tokens[:2] == (4, 5)
    assert draft.sources == ("suffix", "suffix", "model", "model")
    assert draft.is_chain
    assert model.passes == [[4], [1]]
    if mode == "argmax":
        assert list(draft.tokens[2:]) == greedy(model, [1, 2, 4, 5], 2)
    if mode == "gumbel":  # the noise belongs to the position, whoever drafted what is before it
        (alone,) = drafter.propose([job(other, [1, 2, 4, 5], mode, max_tokens=2)])
        assert draft.tokens[2:] == alone.tokens
    drafter.resolve(state, DraftOutcome(draft, Verification((0,), 7, TokenKind.RECOVERED), [1, 2, 4, 7]))
    assert list(drafter.propose([job(state, [1, 2, 4, 7])])[0].tokens[:1])
    assert model.passes[-4] == [1]


def test_a_prefix_without_room_or_that_the_model_cannot_read_is_left_alone(model: TableModel) -> None:
    drafter = ModelDrafter(model, 8, frozenset({3}))
    state = drafter.open([1, 2], None)
    for tokens, max_tokens in (([8], 4), ([3], 4), ([4, 5, 6], 3), ([4] * 19, 30)):
        (draft,) = drafter.propose([job(state, [1, 2], prefix=Draft.chain(tokens, "suffix"), max_tokens=max_tokens)])
        assert draft == EMPTY_DRAFT
    assert drafter.resting(state, 2) is None
    assert model.passes == []


def test_a_draw_that_fails_leaves_no_other_draft_hanging(model: TableModel, drafter: ModelDrafter) -> None:
    states = [drafter.open(text, None) for text in ([1, 2], [3, 4])]
    jobs = [job(state, text) for state, text in zip(states, ([1, 2], [3, 4]), strict=True)]
    table, model.table = model.table, lambda history: np.full(N_VOCAB, np.nan, np.float32)
    with pytest.raises((EngineError, ValueError)):
        drafter.propose([replace(each, mode="gumbel") for each in jobs])
    model.table = table
    for draft, text in zip(drafter.propose(jobs), ([1, 2], [3, 4]), strict=True):
        assert list(draft.tokens) == greedy(model, text, 4)
