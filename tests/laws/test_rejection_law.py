"""Rejection sampling keeps the target's law, by exact enumeration of draft x acceptance x replacement."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sampling.draw import inverse_cdf_token
from outrider.types import EMPTY_DRAFT, ROOT, Distribution, Draft
from outrider.verify import Purpose, RejectionVerifier
from tests.laws.branching import BranchingNoise, Model, Tokens, completed, distance, law_of, text_law
from tests.laws.verifying import ModelRows, Shape, one_step, propose
from tests.property.strategies import distributions

EXACT = 1e-12


def dist(*probs: float) -> Distribution:
    """A distribution from one number per token, zeros left out."""
    values = np.array(probs)
    ids = np.flatnonzero(values)
    return Distribution(ids, values[ids] / values[ids].sum())


def contextual(seed: int, n_vocab: int = 3, *, zeros: bool = False) -> Model:
    """A target whose next token depends on the whole history; with `zeros`, some tokens are impossible."""

    def model(history: Tokens) -> Distribution:
        rng = np.random.default_rng([seed, n_vocab, *history])
        probs = rng.dirichlet(np.full(n_vocab, 0.7))
        if zeros:
            probs[rng.integers(n_vocab)] = 0.0
        return dist(*probs)

    return model


def assert_lossless(shape: Shape, target: Model, n_tokens: int, prompt: Tokens = (0,)) -> None:
    emitted = law_of(one_step(shape, target, prompt))
    assert math.fsum(emitted.values()) == pytest.approx(1.0, abs=EXACT)
    assert distance(completed(emitted, target, prompt, n_tokens), text_law(target, prompt, n_tokens)) < EXACT


TARGETS = {"dense": contextual(1), "zeros": contextual(2, zeros=True), "one-hot": lambda history: Distribution.point(len(history) % 3)}
DRAFTS = {
    "unrelated": contextual(3),
    "zeros": contextual(4, zeros=True),
    "one-hot": lambda history: Distribution.point((len(history) + 1) % 3),
    "uniform": lambda _: dist(1, 1, 1),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS.keys())
@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_sampled_chain_keeps_the_law(target: Model, draft: Model, length: int) -> None:
    shape = Shape.chain(*[lambda history, _: draft(history)] * length)
    assert_lossless(shape, target, length + 1)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_a_draft_with_the_targets_own_law_is_always_accepted(target: Model) -> None:
    shape = Shape.chain(*[lambda history, _: target(history)] * 3)
    law = law_of(one_step(shape, target))
    assert {len(text) for text in law} == {4}
    assert distance(law, text_law(target, (0,), 4)) < EXACT


def test_a_draft_with_disjoint_support_is_never_accepted() -> None:
    target, draft = dist(0.3, 0, 0.7, 0), dist(0, 0.6, 0, 0.4)
    shape = Shape.chain(lambda *_: draft, lambda *_: draft)
    law = law_of(one_step(shape, lambda _: target))
    assert distance(law, {(0,): 0.3, (2,): 0.7}) < EXACT


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("token", [0, 1, 2])
def test_point_masses_keep_the_law_and_are_accepted_with_the_targets_probability(target: Model, token: int) -> None:
    shape = Shape.chain(lambda *_: token, lambda *_: token)
    assert_lossless(shape, target, 3)
    accepted = sum(mass for text, mass in law_of(one_step(shape, target)).items() if len(text) > 1)
    assert accepted == pytest.approx(target((0,)).probability(token), abs=EXACT)


MIXES = {
    "point first, then sampled": (lambda h, _: len(h) % 3, lambda h, _: contextual(5)(h), lambda h, _: contextual(6)(h)),
    "sampled first, then point": (lambda h, _: contextual(5)(h), lambda h, _: h[-1], lambda *_: 2),
    "point between": (lambda h, _: contextual(5)(h), lambda h, _: (h[-1] + 1) % 3, lambda h, _: contextual(6)(h)),
}


@pytest.mark.parametrize("rules", MIXES.values(), ids=MIXES.keys())
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_mixed_chains_keep_the_law(rules: tuple, target: Model) -> None:
    assert_lossless(Shape.chain(*rules), target, 4)


@given(distributions(4), distributions(4))
def test_one_token_keeps_any_law_and_is_accepted_with_one_less_total_variation(target: Distribution, draft: Distribution) -> None:
    shape = Shape.chain(lambda *_: draft)
    law = law_of(one_step(shape, lambda _: target))
    first: dict[int, float] = {}
    for text, mass in law.items():
        first[text[0]] = first.get(text[0], 0.0) + mass
    assert distance(first, dict(zip(target.ids.tolist(), target.probs.tolist(), strict=True))) < EXACT
    overlap = sum(min(target.probability(token), draft.probability(token)) for token in range(4))
    assert sum(mass for text, mass in law.items() if len(text) == 2) == pytest.approx(overlap, abs=EXACT)


# ---------------------------------------------------------------------- trees


def without(draft: Model) -> object:
    """Sampling without replacement: a sibling's distribution excludes the tokens before it."""

    def rule(history: Tokens, siblings: Tokens) -> Distribution | int:
        probs = np.array([draft(history).probability(token) for token in range(3)])
        probs[list(siblings)] = 0.0
        return dist(*probs) if probs.any() else siblings[0]

    return rule


def fresh(seed: int) -> object:
    return lambda history, _: contextual(seed)(history)


def point(token: int) -> object:
    return lambda *_: token


TREES = {
    "two equal draws": Shape((ROOT, ROOT), (fresh(7), fresh(7))),
    "three equal draws": Shape((ROOT, ROOT, ROOT), (fresh(7),) * 3),
    "two different draws": Shape((ROOT, ROOT), (fresh(7), fresh(8))),
    "without replacement": Shape((ROOT, ROOT, ROOT), (without(contextual(7)),) * 3),
    "two points": Shape((ROOT, ROOT), (point(1), point(2))),
    "a point, then a draw": Shape((ROOT, ROOT), (point(1), fresh(7))),
    "a draw, then a point": Shape((ROOT, ROOT), (fresh(7), point(1))),
    "the same point twice": Shape((ROOT, ROOT), (point(1), point(1))),
    "branches below": Shape((ROOT, 0, 0, ROOT, 3), (fresh(7), fresh(8), point(2), fresh(9), fresh(7))),
    "proposed out of order": Shape((ROOT, ROOT, 0, 1), (fresh(7), point(0), fresh(8), fresh(9))),
}


@pytest.mark.parametrize("shape", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_trees_keep_the_law(shape: Shape, target: Model) -> None:
    assert_lossless(shape, target, 3)


@given(distributions(3), st.lists(st.one_of(distributions(3), st.integers(0, 2)), max_size=3))
def test_any_siblings_keep_the_law(target: Distribution, siblings: list[Distribution | int]) -> None:
    shape = Shape((ROOT,) * len(siblings), tuple((lambda *_, s=sibling: s) for sibling in siblings))
    assert_lossless(shape, lambda _: target, 2)


# ---------------------------------------------------------------------- the law can fail


COIN = dist(0.5, 0.5)


def drop_if_second_token(draft: Draft) -> Draft:
    """What the fairness law forbids: the policy looks at the token that was drawn."""
    return EMPTY_DRAFT if draft.tokens[0] == 1 else draft


def test_a_policy_that_looks_at_the_drawn_token_is_caught() -> None:
    shape = Shape.chain(lambda *_: COIN)
    law = completed(law_of(one_step(shape, lambda _: COIN, keep=drop_if_second_token)), lambda _: COIN, (0,), 1)
    assert law[(0,)] == pytest.approx(0.75, abs=EXACT)
    assert distance(law, text_law(lambda _: COIN, (0,), 1)) == pytest.approx(0.25, abs=EXACT)


def test_the_same_policy_is_free_to_look_at_a_point_mass() -> None:
    shape = Shape.chain(lambda *_: 1)
    law = law_of(one_step(shape, lambda _: COIN, keep=drop_if_second_token))
    assert distance(law, {(0,): 0.5, (1,): 0.5}) < EXACT


def test_accepting_only_equal_tokens_of_two_independent_draws_is_caught() -> None:
    """The wrong rule that some programs ship: draw from the target, keep the draft if equal, else draw from it again."""

    class Redraw(RejectionVerifier):
        def verify(self, draft: Draft, rows: ModelRows, noise: BranchingNoise) -> object:
            target = rows.distribution(ROOT)
            own = inverse_cdf_token(target, noise.uniform(rows.start, 0, Purpose.ACCEPT))
            if own != draft.tokens[0]:
                own = inverse_cdf_token(target, noise.uniform(rows.start, 0, Purpose.RECOVER))
            return super().verify(EMPTY_DRAFT, ModelRows(lambda _: Distribution.point(own), rows.prompt, EMPTY_DRAFT), noise)

    target, draft = dist(0.5, 0.3, 0.2), dist(0.2, 0.3, 0.5)
    law = law_of(one_step(Shape.chain(lambda *_: draft), lambda _: target, verifier=Redraw()))
    assert distance(law, text_law(lambda _: target, (0,), 1)) > 0.01


def test_a_shape_draws_what_it_says() -> None:
    shape = Shape((ROOT, 0), (lambda *_: COIN, lambda history, _: history[-1]))
    assert law_of(lambda noise: propose(shape, (0,), noise).tokens) == {(0, 0): 0.5, (1, 1): 0.5}
