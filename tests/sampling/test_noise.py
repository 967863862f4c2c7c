"""Keyed noise: what it is for, against a slow reference, and as good as random. Seeds are fixed, so no test is flaky."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import ConfigError
from outrider.sampling.noise import KeyedNoise
from outrider.verify import Purpose

WORDS = st.integers(0, 2**64 - 1)
POSITIONS = st.integers(0, 2**31)


def splitmix64(seed: int, n: int) -> list[int]:
    """The published generator, step by step."""
    outputs, state = [], seed
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        outputs.append(z ^ (z >> 31))
    return outputs


def slow_key(*words: int) -> int:
    """The documented construction: each word picks one output of the generator that starts at the state so far."""
    state = 0
    for word in words:
        state = splitmix64((state + word * 0x9E3779B97F4A7C15) % 2**64, 1)[0]
    return state


def slow_gumbel(seed: int, choice: int, position: int, token: int) -> float:
    bits = slow_key(seed, choice, 0, position, token)
    return -math.log(-math.log(((bits >> 12) + 0.5) / 2**52))


def test_the_generator_is_splitmix64() -> None:
    # first outputs for seed 1234567, as published with the generator's reference code
    assert splitmix64(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert slow_key(5) == splitmix64(0, 6)[-1]


@given(WORDS, st.integers(0, 5), POSITIONS, st.lists(st.integers(0, 300_000), min_size=1, max_size=20))
def test_gumbel_equals_the_slow_reference(seed: int, choice: int, position: int, ids: list[int]) -> None:
    fast = KeyedNoise(seed, choice).gumbel(position, np.array(ids))
    slow = [slow_gumbel(seed, choice, position, token) for token in ids]
    np.testing.assert_allclose(fast, slow, rtol=1e-12, atol=1e-12)


@given(WORDS, st.integers(0, 5), POSITIONS, st.integers(0, 2000), st.sampled_from(list(Purpose)))
def test_uniform_equals_the_slow_reference(seed: int, choice: int, start: int, offset: int, purpose: Purpose) -> None:
    family = {Purpose.DRAFT: 1, Purpose.ACCEPT: 2, Purpose.RECOVER: 3}[purpose]
    assert KeyedNoise(seed, choice).uniform(start, offset, purpose) == (slow_key(seed, choice, family, start, offset) >> 11) / 2**53


@given(WORDS, POSITIONS, st.sets(st.integers(0, 10**6), min_size=2, max_size=200))
def test_an_ids_noise_does_not_depend_on_the_other_ids(seed: int, position: int, ids: set[int]) -> None:
    noise = KeyedNoise(seed)
    together = noise.gumbel(position, np.array(sorted(ids)))
    alone = [noise.gumbel(position, np.array([token]))[0] for token in sorted(ids)]
    assert together.tolist() == alone


def test_equal_keys_give_equal_numbers_and_calls_leave_no_trace() -> None:
    ids = np.arange(50)
    first, second = KeyedNoise(7), KeyedNoise(7)
    before = first.gumbel(3, ids)
    first.uniform(3, 0, Purpose.ACCEPT)
    first.gumbel(4, ids)
    assert np.array_equal(before, first.gumbel(3, ids))
    assert np.array_equal(before, second.gumbel(3, ids))
    assert ids.tolist() == list(range(50))


def test_every_word_of_a_key_matters() -> None:
    ids = np.arange(100)
    rows = [KeyedNoise(*key).gumbel(position, ids) for key in [(0,), (1,), (0, 1), (2**63,)] for position in (0, 1, 99)]
    assert len({row.tobytes() for row in rows}) == len(rows)
    draws = [KeyedNoise(3).uniform(start, offset, purpose) for start in range(20) for offset in range(20) for purpose in Purpose]
    assert len(set(draws)) == len(draws)


def test_noise_is_finite_and_in_range_at_the_ends_of_the_grid() -> None:
    noise = KeyedNoise(11).gumbel(0, np.arange(2_000_000))
    assert np.isfinite(noise).all()
    # the smallest and the largest number of the grid, whose logarithms must not be 0 or infinite
    low, high = 2.0**-53, 1.0 - 2.0**-53
    assert -math.log(-math.log(low)) == pytest.approx(-3.603, abs=1e-3)
    assert -math.log(-math.log(high)) == pytest.approx(36.737, abs=1e-3)
    assert noise.min() > -3.61
    assert noise.max() < 36.8


@pytest.mark.parametrize(("seed", "choice"), [(-1, 0), (2**64, 0), (0, -1)])
def test_keys_out_of_range_are_refused(seed: int, choice: int) -> None:
    with pytest.raises(ConfigError):
        KeyedNoise(seed, choice)


# ---------------------------------------------------------------------- as good as random


def uniforms(noise: np.ndarray) -> np.ndarray:
    """Back from Gumbel to uniform."""
    return np.exp(-np.exp(-noise))


def chi_square(values: np.ndarray, n_bins: int = 100) -> float:
    """Pearson's statistic of uniform values; mean n_bins - 1, standard deviation about 14 for 100 bins."""
    counts = np.bincount((values * n_bins).astype(int), minlength=n_bins)
    expected = len(values) / n_bins
    return float(((counts - expected) ** 2).sum() / expected)


FAMILIES = {
    "over token ids": lambda seed: uniforms(KeyedNoise(seed).gumbel(5, np.arange(50_000))),
    "over positions": lambda seed: uniforms(np.array([KeyedNoise(seed).gumbel(p, np.array([17]))[0] for p in range(6_000)])),
    "over seeds": lambda seed: uniforms(np.array([KeyedNoise(s).gumbel(3, np.array([17]))[0] for s in range(seed, seed + 6_000)])),
    "over starts": lambda seed: np.array([KeyedNoise(seed).uniform(start, 0, Purpose.ACCEPT) for start in range(6_000)]),
    "over offsets": lambda seed: np.array([KeyedNoise(seed).uniform(9, offset, Purpose.DRAFT) for offset in range(6_000)]),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
@pytest.mark.parametrize("seed", [0, 12345])
def test_numbers_are_uniform_and_neighbours_uncorrelated(family: object, seed: int) -> None:
    values = family(seed)
    assert 43 < chi_square(values) < 169  # 4 to 5 standard deviations either way
    centred = values - 0.5
    for lag in (1, 2, 8):
        correlation = float((centred[:-lag] * centred[lag:]).mean() * 12 * math.sqrt(len(values)))
        assert abs(correlation) < 4.5


def test_pairs_of_keys_are_uncorrelated() -> None:
    ids = np.arange(50_000)
    base = uniforms(KeyedNoise(1).gumbel(10, ids)) - 0.5
    others = [
        KeyedNoise(1).gumbel(11, ids),
        KeyedNoise(2).gumbel(10, ids),
        KeyedNoise(1, 1).gumbel(10, ids),
        KeyedNoise(1).gumbel(10, ids + 1),
    ]
    for other in others:
        correlation = float((base * (uniforms(other) - 0.5)).mean() * 12 * math.sqrt(len(ids)))
        assert abs(correlation) < 4.5


def test_gumbel_has_its_mean_and_variance() -> None:
    noise = KeyedNoise(3).gumbel(1, np.arange(200_000))
    assert noise.mean() == pytest.approx(np.euler_gamma, abs=0.015)
    assert noise.var() == pytest.approx(math.pi**2 / 6, abs=0.04)
