"""Drawing a token: the laws of both ways, and the edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sampling.draw import gumbel_token, inverse_cdf_token
from outrider.sampling.noise import KeyedNoise
from outrider.types import Distribution
from tests.property.strategies import distributions

SKEWED = Distribution(np.array([1, 4, 6, 9]), np.array([0.5, 0.3, 0.15, 0.05]))


def chi_square(tokens: list[int], distribution: Distribution) -> float:
    expected = distribution.probs * len(tokens)
    counts = np.array([tokens.count(token) for token in distribution.ids.tolist()])
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("first_seed", [0, 10_000])
def test_gumbel_tokens_over_seeds_have_the_distributions_law(first_seed: int) -> None:
    tokens = [gumbel_token(SKEWED, KeyedNoise(seed), 7) for seed in range(first_seed, first_seed + 4000)]
    assert chi_square(tokens, SKEWED) < 16.3  # 3 degrees of freedom, 0.1 %


def test_gumbel_tokens_over_positions_have_the_distributions_law() -> None:
    noise = KeyedNoise(99)
    tokens = [gumbel_token(SKEWED, noise, position) for position in range(4000)]
    assert chi_square(tokens, SKEWED) < 16.3


@given(distributions(8), st.integers(0, 2**64 - 1), st.integers(0, 1000))
def test_gumbel_tokens_come_from_the_support(distribution: Distribution, seed: int, position: int) -> None:
    assert gumbel_token(distribution, KeyedNoise(seed), position) in distribution.ids


def test_two_near_distributions_mostly_draw_the_same_token() -> None:
    near = Distribution(SKEWED.ids, np.array([0.45, 0.35, 0.15, 0.05]))
    total_variation = 0.05
    equal = sum(gumbel_token(SKEWED, KeyedNoise(seed), 0) == gumbel_token(near, KeyedNoise(seed), 0) for seed in range(4000)) / 4000
    assert equal > (1 - total_variation) / (1 + total_variation) - 0.02


def test_inverse_cdf_at_the_edges() -> None:
    below_one = 1.0 - 2.0**-53
    assert inverse_cdf_token(SKEWED, 0.0) == 1
    assert inverse_cdf_token(SKEWED, 0.499999) == 1
    assert inverse_cdf_token(SKEWED, 0.5) == 4
    assert inverse_cdf_token(SKEWED, below_one) == 9
    assert inverse_cdf_token(Distribution.point(3), below_one) == 3


def test_inverse_cdf_survives_probabilities_that_add_up_to_less_than_one() -> None:
    short = Distribution(np.array([0, 1]), np.array([0.5, 0.5 - 1e-9]))
    assert inverse_cdf_token(short, 1.0 - 2.0**-53) == 1


@given(distributions(8), st.floats(0, 1, exclude_max=True))
def test_inverse_cdf_returns_the_token_whose_interval_holds_the_number(distribution: Distribution, uniform: float) -> None:
    token = inverse_cdf_token(distribution, uniform)
    place = distribution.ids.tolist().index(token)
    assert sum(distribution.probs[:place]) <= uniform + 1e-12
    assert sum(distribution.probs[: place + 1]) > uniform - 1e-12
