"""The enumeration itself: it must be exact, or the laws that it proves mean nothing."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.sampling.draw import inverse_cdf_token
from outrider.types import Distribution
from outrider.verify import Purpose
from tests.laws.branching import BranchingNoise, completed, distance, law_of, text_law

LOPSIDED = Distribution(np.array([0, 2, 5]), np.array([0.5, 0.5 - 1e-9, 1e-9]))


def test_a_draw_has_the_law_of_its_distribution() -> None:
    law = law_of(lambda noise: inverse_cdf_token(LOPSIDED, noise.uniform(0, 0, Purpose.DRAFT)))
    assert distance(law, dict(zip(LOPSIDED.ids.tolist(), LOPSIDED.probs.tolist(), strict=True))) < 1e-15


def test_draws_with_different_keys_are_independent() -> None:
    def two(noise: BranchingNoise) -> tuple[bool, bool]:
        return noise.uniform(0, 0, Purpose.ACCEPT) < 0.25, noise.uniform(0, 1, Purpose.ACCEPT) < 0.5

    assert law_of(two) == {(True, True): 0.125, (True, False): 0.125, (False, True): 0.375, (False, False): 0.375}


def test_one_key_is_one_number() -> None:
    def twice(noise: BranchingNoise) -> tuple[bool, bool]:
        return noise.uniform(0, 0, Purpose.ACCEPT) < 0.25, noise.uniform(0, 0, Purpose.ACCEPT) < 0.5

    assert law_of(twice) == {(True, True): 0.25, (False, True): 0.25, (False, False): 0.5}


def test_arithmetic_on_an_undecided_number_fails() -> None:
    with pytest.raises(TypeError):
        law_of(lambda noise: noise.uniform(0, 0, Purpose.DRAFT) * 2.0)


def test_text_law_is_the_product_of_the_conditionals_and_an_end_token_cuts() -> None:
    half = Distribution(np.array([0, 1]), np.array([0.75, 0.25]))
    assert text_law(lambda _: half, (0,), 2) == {(0, 0): 0.5625, (0, 1): 0.1875, (1, 0): 0.1875, (1, 1): 0.0625}
    assert text_law(lambda _: half, (0,), 2, frozenset({1})) == {(): 0.25, (0,): 0.1875, (0, 0): 0.5625}


def test_completed_cuts_and_continues() -> None:
    half = Distribution(np.array([0, 1]), np.array([0.75, 0.25]))
    assert completed({(1, 1, 0): 0.5, (0,): 0.5}, lambda _: half, (), 2) == {(1, 1): 0.5, (0, 0): 0.375, (0, 1): 0.125}
