"""Rejection sampling step by step: keys, kinds, numerics. Its law is proved in tests/laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import EngineError
from outrider.sampling.noise import KeyedNoise
from outrider.types import EMPTY_DRAFT, ROOT, Distribution, Draft, TokenKind, Verification
from outrider.verify import Purpose, RejectionVerifier
from outrider.verify.rejection import acceptance, subtract
from tests.laws.verifying import ModelRows
from tests.property.strategies import distributions, drafts

HALF = Distribution(np.array([0, 1]), np.array([0.5, 0.5]))
SKEWED = Distribution(np.array([0, 1, 3]), np.array([0.2, 0.3, 0.5]))


class Scripted:
    """Uniforms by key; a key that isn't scripted fails."""

    def __init__(self, draws: dict[tuple[int, int, Purpose], float]) -> None:
        self.draws = draws

    def uniform(self, start: int, offset: int, purpose: Purpose) -> float:
        return self.draws.pop((start, offset, purpose))

    def gumbel(self, position: int, ids: np.ndarray) -> np.ndarray:
        raise AssertionError("rejection sampling draws no Gumbel noise")


def test_accepted_to_the_leaf_gives_a_bonus() -> None:
    draft = Draft.chain([0, 1], "model", [HALF, HALF])
    noise = Scripted({(1, 0, Purpose.ACCEPT): 0.39, (1, 1, Purpose.ACCEPT): 0.59, (1, 2, Purpose.RECOVER): 0.0})
    verification = RejectionVerifier().verify(draft, ModelRows(lambda _: SKEWED, (7,), draft), noise)
    assert verification == Verification((0, 1), 0, TokenKind.BONUS)
    assert not noise.draws


def test_a_refused_token_is_replaced_from_the_residual() -> None:
    draft = Draft.chain([0, 1], "model", [HALF, HALF])
    noise = Scripted({(1, 0, Purpose.ACCEPT): 0.41, (1, 0, Purpose.RECOVER): 0.0})
    rows = ModelRows(lambda _: SKEWED, (7,), draft)
    # (target - draft)+ is (-.3, -.2, .5): only token 3 is left
    assert RejectionVerifier().verify(draft, rows, noise) == Verification((), 3, TokenKind.RECOVERED, (0,))
    assert rows.asked == [ROOT]


def test_siblings_are_tried_in_order_each_with_its_own_key() -> None:
    draft = Draft((1, 3, 0), (ROOT, ROOT, ROOT), ("x",) * 3, (None,) * 3, (1.0,) * 3)
    # 0.3 for token 1; then .2 and .5 of what is left (.7) for 0 and 3
    noise = Scripted({(1, 0, Purpose.ACCEPT): 0.31, (1, 1, Purpose.ACCEPT): 0.71, (1, 1, Purpose.RECOVER): 0.0})
    verification = RejectionVerifier().verify(draft, ModelRows(lambda _: SKEWED, (7,), draft), noise)
    assert verification == Verification((1,), 0, TokenKind.BONUS, (0,))


def test_without_a_draft_the_target_draws() -> None:
    noise = Scripted({(1, 0, Purpose.RECOVER): 0.5})
    verification = RejectionVerifier().verify(EMPTY_DRAFT, ModelRows(lambda _: SKEWED, (7,), EMPTY_DRAFT), noise)
    assert verification == Verification((), 3, TokenKind.PLAIN)


def test_a_token_outside_its_own_distribution_is_an_error() -> None:
    draft = Draft.chain([3], "liar", [HALF])
    with pytest.raises(EngineError, match="draft token 3"):
        RejectionVerifier().verify(draft, ModelRows(lambda _: SKEWED, (7,), draft), KeyedNoise(0))


def test_acceptance_is_the_ratio_at_most_one() -> None:
    assert acceptance(SKEWED, HALF, 0) == 0.4
    assert acceptance(HALF, SKEWED, 0) == 1.0
    assert acceptance(HALF, Distribution.point(3), 3) == 0.0


@given(distributions(6), distributions(6))
def test_the_residual_is_a_distribution_within_the_targets_support(target: Distribution, draft: Distribution) -> None:
    residual = subtract(target, draft)
    assert set(residual.ids.tolist()) <= set(target.ids.tolist())
    assert (np.diff(residual.ids) > 0).all()
    assert (residual.probs > 0).all()
    assert float(residual.probs.sum()) == pytest.approx(1.0, abs=1e-12)


@given(distributions(6), st.integers(0, 5))
def test_a_refused_point_is_zeroed(target: Distribution, token: int) -> None:
    residual = subtract(target, Distribution.point(token))
    if target.ids.tolist() == [token]:
        assert residual is target  # cannot be refused: accepted with probability 1
        return
    others = target.ids != token
    assert residual.ids.tolist() == target.ids[others].tolist()
    np.testing.assert_allclose(residual.probs, target.probs[others] / target.probs[others].sum(), rtol=1e-12)


def test_a_residual_that_rounding_emptied_falls_back_to_the_target() -> None:
    assert subtract(HALF, HALF) is HALF


@given(st.integers(0, 2**64 - 1), drafts(4), st.lists(distributions(4), min_size=6, max_size=6), distributions(4))
def test_any_draft_is_answered_soundly(seed: int, draft: Draft, drawn_from: list[Distribution], target: Distribution) -> None:
    # the tokens of some nodes come from a distribution, the others are point masses
    sampled = [probs if probs.probability(token) > 0 else None for token, probs in zip(draft.tokens, drawn_from, strict=False)]
    draft = Draft(draft.tokens, draft.parents, draft.sources, tuple(sampled), draft.acceptance)
    verification = RejectionVerifier().verify(draft, ModelRows(lambda _: target, (0,), draft), KeyedNoise(seed))
    end = verification.path[-1] if verification.path else ROOT
    assert list(verification.path) == draft.path(end)
    assert verification.token in target.ids
    assert all(draft.tokens[node] in target.ids for node in verification.path)
    assert not set(verification.path) & set(verification.refused)
    assert set(draft.children(end)) <= set(verification.refused)
    assert {draft.parents[node] for node in verification.refused} <= {ROOT, *verification.path}
    leaf = not draft.children(end)
    assert verification.kind is (TokenKind.PLAIN if not len(draft) else TokenKind.BONUS if leaf else TokenKind.RECOVERED)
