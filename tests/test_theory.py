"""The formulas, against sums over outcomes, exact search and known values."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outrider.errors import ConfigError
from outrider.theory import (
    Optimum,
    break_even_alpha,
    expected_tokens,
    expected_tokens_equal,
    lambert_w_lower,
    machine_ceiling,
    optimal_draft_length,
    optimal_draft_length_linear,
    rate,
    survival,
    verify_cost,
)

PROBABILITIES = st.floats(0, 1)
ALPHAS = st.floats(0.05, 0.99)
COSTS = st.floats(0.005, 0.6)


def linear_target_ms(row_cost: float, n_rows: int) -> list[float]:
    return [1.0 + row_cost * rows for rows in range(n_rows)]


def test_survival_is_the_running_product() -> None:
    assert survival([0.5, 0.5, 1.0]) == [0.5, 0.25, 0.25]
    assert survival([]) == []


@given(st.lists(PROBABILITIES, max_size=8))
def test_expected_tokens_is_the_mean_over_all_outcomes(acceptance: list[float]) -> None:
    mean, reached = 0.0, 1.0
    for n_accepted, probability in enumerate(acceptance):
        mean += reached * (1 - probability) * (n_accepted + 1)
        reached *= probability
    mean += reached * (len(acceptance) + 1)
    assert expected_tokens(acceptance) == pytest.approx(mean, abs=1e-12)


@given(PROBABILITIES, st.integers(0, 30))
def test_equal_acceptance_has_the_closed_form(alpha: float, draft_length: int) -> None:
    assume(alpha == 1.0 or alpha < 1 - 1e-6)
    assert expected_tokens_equal(alpha, draft_length) == pytest.approx(expected_tokens([alpha] * draft_length), rel=1e-9)


def test_rate_divides_by_draft_host_and_target_time() -> None:
    assert rate([], [10.0], 2.0) == pytest.approx(0.1)
    assert rate([0.5, 0.5], [10.0, 11.0, 12.0], 2.0, host_ms=1.0) == pytest.approx(1.75 / 17.0)
    assert verify_cost([10.0, 11.0, 12.0], 2) == pytest.approx(1.2)


def test_rate_needs_the_pass_to_be_known_and_to_take_time() -> None:
    with pytest.raises(ConfigError, match=r"T\(3\) is needed"):
        rate([0.5, 0.5], [10.0, 11.0], 1.0)
    with pytest.raises(ConfigError, match="times must be positive"):
        rate([], [0.0], 1.0)


def test_speculation_that_does_not_pay_is_not_chosen() -> None:
    assert optimal_draft_length([0.1] * 8, linear_target_ms(0.3, 9), 0.2) == Optimum(0, 1.0, 1.0)


def test_the_search_sees_across_a_stair() -> None:
    # rows 2 and 3 are dear, 4 is no dearer: only the whole run of three pays
    best = optimal_draft_length([0.9, 0.9, 0.9], [1.0, 2.0, 2.0, 2.0], 0.0)
    assert best.draft_length == 3
    assert best.speedup == pytest.approx((1 + 0.9 + 0.81 + 0.729) / 2)


@given(st.lists(ALPHAS, min_size=1, max_size=8), st.lists(st.floats(0.5, 5), min_size=1, max_size=9), st.floats(0, 1), st.floats(0, 1))
def test_no_other_length_is_better(acceptance: list[float], target_ms: list[float], draft_ms: float, host_ms: float) -> None:
    best = optimal_draft_length(acceptance, target_ms, draft_ms, host_ms)
    rates = [rate(acceptance[:length], target_ms, draft_ms, host_ms) for length in range(min(len(acceptance), len(target_ms) - 1) + 1)]
    assert best.rate == max(rates)
    assert best.draft_length == rates.index(best.rate)
    assert best.speedup == best.rate / rates[0]


def test_the_known_example() -> None:
    assert optimal_draft_length_linear(0.8, 0.05, 0.05) == pytest.approx(5.76, abs=0.005)
    assert optimal_draft_length([0.8] * 20, linear_target_ms(0.05, 21), 0.05).draft_length == 6


@given(ALPHAS, COSTS, COSTS)
def test_the_closed_form_stands_beside_the_exact_search(alpha: float, draft_cost: float, row_cost: float) -> None:
    length = optimal_draft_length_linear(alpha, draft_cost, row_cost)
    longest = math.ceil(length) + 3
    exact = optimal_draft_length([alpha] * longest, linear_target_ms(row_cost, longest + 1), draft_cost)
    # the rate has one peak, so the best whole number is next to the real one
    assert abs(exact.draft_length - length) < 1


@given(ALPHAS, COSTS, COSTS)
def test_one_token_pays_exactly_above_break_even(alpha: float, draft_cost: float, row_cost: float) -> None:
    threshold = break_even_alpha(draft_cost, row_cost)
    assume(abs(alpha - threshold) > 1e-9)
    one = rate([alpha], linear_target_ms(row_cost, 2), draft_cost)
    assert (one > 1.0) == (alpha > threshold)
    if alpha <= threshold:
        assert optimal_draft_length_linear(alpha, draft_cost, row_cost) == 0.0


def test_a_nearly_free_draft_has_a_finite_optimum() -> None:
    # the argument of W underflows here; the solver works on its logarithm
    assert 0 < optimal_draft_length_linear(0.9, 1e-6, 0.0) < 1000


@pytest.mark.parametrize(
    ("alpha", "draft_cost", "row_cost"), [(0.0, 0.1, 0.1), (1.0, 0.1, 0.1), (0.5, 0.0, 0.0), (0.5, -0.1, 0.2), (0.5, 0.1, -0.2)]
)
def test_the_closed_form_refuses_what_it_is_not_made_for(alpha: float, draft_cost: float, row_cost: float) -> None:
    with pytest.raises(ConfigError):
        optimal_draft_length_linear(alpha, draft_cost, row_cost)


def test_lambert_w_has_its_known_values() -> None:
    assert lambert_w_lower(-math.exp(-1)) == -1.0
    assert lambert_w_lower(-math.log(2) / 2) == pytest.approx(-2 * math.log(2), rel=1e-15)
    assert lambert_w_lower(-0.1) == pytest.approx(-3.577152063957297, rel=1e-15)
    assert lambert_w_lower(-1e-300) == pytest.approx(-697.3227762954601, rel=1e-14)


@given(st.floats(1.0, 700.0))
def test_lambert_w_inverts_w_exp_w(w: float) -> None:
    x = -w * math.exp(-w)
    assume(x > -math.exp(-1))
    # near the branch point x forgets w: sqrt of the rounding error is all that can be asked for
    assert lambert_w_lower(x) == pytest.approx(-w, rel=1e-12, abs=1e-7 if w < 1.1 else 0.0)


@given(st.floats(-math.exp(-1), -1e-12))
def test_lambert_w_is_on_the_lower_branch_and_solves_its_equation(x: float) -> None:
    w = lambert_w_lower(x)
    assert w <= -1.0
    assert w * math.exp(w) == pytest.approx(x, rel=1e-13)


@pytest.mark.parametrize("x", [-0.5, 0.0, 0.1, float("nan")])
def test_lambert_w_refuses_what_has_no_value(x: float) -> None:
    with pytest.raises(ConfigError, match="must be from -1/e to below 0"):
        lambert_w_lower(x)


def test_machine_ceiling_is_the_best_width() -> None:
    assert machine_ceiling([10.0]) == 1.0
    assert machine_ceiling([10.0, 11.0, 40.0, 41.0]) == pytest.approx(20 / 11)


@given(st.lists(st.floats(0.5, 5), min_size=2, max_size=9))
def test_no_drafter_beats_the_machine_ceiling(target_ms: list[float]) -> None:
    perfect = optimal_draft_length([1.0] * (len(target_ms) - 1), target_ms, 0.0)
    assert perfect.speedup == pytest.approx(machine_ceiling(target_ms), rel=1e-12)
