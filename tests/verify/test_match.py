"""Match and greedy verification say what plain decoding says, for any draft."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sampling.draw import gumbel_token
from outrider.sampling.noise import KeyedNoise
from outrider.types import EMPTY_DRAFT, ROOT, Distribution, Draft, TokenKind, Verification
from outrider.verify import Verifier, make_verifier
from tests.laws.branching import Model, Tokens
from tests.laws.verifying import ModelRows
from tests.property.strategies import drafts

N_VOCAB = 4


def contextual(seed: int) -> Model:
    rows: dict[Tokens, Distribution] = {}

    def model(history: Tokens) -> Distribution:
        key = history[-3:]
        if key not in rows:
            probs = np.random.default_rng([seed, *key]).dirichlet(np.full(N_VOCAB, 0.6))
            rows[key] = Distribution(np.arange(N_VOCAB), probs)
        return rows[key]

    return model


def plain(verifier: Verifier, model: Model, prompt: Tokens, n_tokens: int, noise: KeyedNoise) -> Tokens:
    text: Tokens = ()
    while len(text) < n_tokens:
        verification = verifier.verify(EMPTY_DRAFT, ModelRows(model, prompt + text, EMPTY_DRAFT), noise)
        assert verification.kind is TokenKind.PLAIN
        text += (verification.token,)
    return text


def emitted(draft: Draft, verification: Verification) -> Tokens:
    return (*(draft.tokens[node] for node in verification.path), verification.token)


def random_draft(rng: np.random.Generator) -> Draft:
    n_nodes = int(rng.integers(0, 8))
    parents = [node - 1 if rng.random() < 0.6 else int(rng.integers(ROOT, node)) if node else ROOT for node in range(n_nodes)]
    tokens = [int(token) for token in rng.integers(0, N_VOCAB, n_nodes)]
    return Draft(tuple(tokens), tuple(parents), ("x",) * n_nodes, (None,) * n_nodes, (1.0,) * n_nodes)


@pytest.mark.parametrize("name", ["greedy", "match"])
def test_text_of_thousands_of_seeds_and_random_drafts_equals_plain_decoding(name: str) -> None:
    verifier, rng = make_verifier(name), np.random.default_rng(5)
    models = [contextual(seed) for seed in range(20)]
    for seed in range(2500):
        model, noise, draft = models[seed % 20], KeyedNoise(seed), random_draft(rng)
        verification = verifier.verify(draft, ModelRows(model, (1, 2), draft), noise)
        text = emitted(draft, verification)
        assert text == plain(verifier, model, (1, 2), len(text), noise)


@given(st.integers(0, 30), st.integers(0, 2**64 - 1), drafts(N_VOCAB), st.sampled_from(["greedy", "match"]))
def test_every_token_is_plain_decodings_and_the_walk_is_as_long_as_the_draft_allows(
    model_seed: int, seed: int, draft: Draft, name: str
) -> None:
    verifier, model, noise = make_verifier(name), contextual(model_seed), KeyedNoise(seed)
    rows = ModelRows(model, (0,), draft)
    verification = verifier.verify(draft, rows, noise)
    text = emitted(draft, verification)
    assert text == plain(verifier, model, (0,), len(text), noise)
    end = verification.path[-1] if verification.path else ROOT
    children = draft.children(end)
    assert all(draft.tokens[child] != verification.token for child in children)
    assert list(verification.path) == draft.path(end)
    assert rows.asked == [ROOT, *verification.path]  # a row that was not reached is never computed
    expected = TokenKind.PLAIN if not len(draft) else TokenKind.RECOVERED if children else TokenKind.BONUS
    assert verification.kind is expected


def test_refused_siblings_are_those_before_the_accepted_one_and_all_at_the_end() -> None:
    always_two: Model = lambda _: Distribution.point(2)  # noqa: E731
    draft = Draft((0, 2, 1, 1, 0), (ROOT, ROOT, ROOT, 1, 1), ("x",) * 5, (None,) * 5, (1.0,) * 5)
    for name in ("greedy", "match"):
        verification = make_verifier(name).verify(draft, ModelRows(always_two, (0,), draft), KeyedNoise(0))
        assert verification == Verification((1,), 2, TokenKind.RECOVERED, (0, 3, 4))


def test_a_draft_of_the_targets_own_tokens_is_accepted_whole() -> None:
    verifier, model = make_verifier("match"), contextual(3)
    for seed in range(200):
        noise = KeyedNoise(seed)
        text = plain(verifier, model, (0,), 6, noise)
        draft = Draft.chain(list(text[:5]), "self")
        verification = verifier.verify(draft, ModelRows(model, (0,), draft), noise)
        assert verification == Verification((0, 1, 2, 3, 4), text[5], TokenKind.BONUS)


def test_a_drafter_with_the_same_noise_agrees_as_often_as_its_bound_says() -> None:
    target = Distribution(np.arange(4), np.array([0.5, 0.3, 0.15, 0.05]))
    draft_probs = Distribution(np.arange(4), np.array([0.3, 0.3, 0.2, 0.2]))
    total_variation = 0.2
    n_seeds = 4000
    accepted = 0
    for seed in range(n_seeds):
        noise = KeyedNoise(seed)
        draft = Draft.chain([gumbel_token(draft_probs, noise, 1)], "model")
        accepted += len(make_verifier("match").verify(draft, ModelRows(lambda _: target, (0,), draft), noise).path)
    bound = (1 - total_variation) / (1 + total_variation)
    assert accepted / n_seeds > bound - 3 * math.sqrt(bound * (1 - bound) / n_seeds)
    assert accepted / n_seeds < 1 - total_variation + 0.03  # no coupling beats the overlap


def test_match_reads_the_noise_of_each_tokens_own_position() -> None:
    asked: list[int] = []

    class Watching(KeyedNoise):
        def gumbel(self, position: int, ids: np.ndarray) -> np.ndarray:
            asked.append(position)
            return super().gumbel(position, ids)

    noise, model = Watching(4), contextual(1)
    text = plain(make_verifier("match"), model, (0, 0, 0), 3, noise)
    asked.clear()
    draft = Draft.chain(list(text[:2]), "self")
    make_verifier("match").verify(draft, ModelRows(model, (0, 0, 0), draft), noise)
    assert asked == [3, 4, 5]
