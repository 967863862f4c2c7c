"""The formulas of speculative decoding: what a step yields, what it should cost, how long a draft should be.

Names: `acceptance[j]` is the probability that draft token j is accepted given that it is reached; `target_ms[b - 1]` is T(b),
the time of a target pass over b rows; `draft_step_ms` is D. Times may be in any one unit; rates are in its inverse.
Sources: Leviathan et al. 2022 (arXiv 2211.17192), Chen et al. 2023 (arXiv 2302.01318).
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from outrider.errors import ConfigError


def survival(acceptance: Seq[float]) -> list[float]:
    """Probability that draft token i and all before it are accepted, one per token."""
    return list(accumulate(acceptance, mul))


def expected_tokens(acceptance: Seq[float]) -> float:
    """Expected tokens of a step, the recovered or bonus token included: 1 + the sum of the survivals."""
    return 1.0 + math.fsum(survival(acceptance))


def expected_tokens_equal(alpha: float, draft_length: int) -> float:
    """Expected tokens of a step when every draft token is accepted with probability `alpha`: (1 - a^(g+1)) / (1 - a)."""
    if alpha == 1.0:
        return draft_length + 1.0
    return (1.0 - alpha ** (draft_length + 1)) / (1.0 - alpha)


def verify_cost(target_ms: Seq[float], draft_length: int) -> float:
    """T(g + 1) / T(1): how many plain passes one verification costs."""
    return target_ms[draft_length] / target_ms[0]


def rate(acceptance: Seq[float], target_ms: Seq[float], draft_step_ms: float, host_ms: float = 0.0) -> float:
    """Expected tokens per unit of time when `len(acceptance)` tokens are drafted in every step.

    Raises:
        ConfigError: T is not known for that many rows, or a step would take no time.
    """
    draft_length = len(acceptance)
    if draft_length >= len(target_ms):
        raise ConfigError(f"T({draft_length + 1}) is needed and only T(1) to T({len(target_ms)}) are known", "measure more rows")
    step_ms = draft_length * draft_step_ms + host_ms + target_ms[draft_length]
    if step_ms <= 0.0:
        raise ConfigError(f"a step of {draft_length} draft tokens takes {step_ms:g} ms", "times must be positive")
    return expected_tokens(acceptance) / step_ms


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best draft length and the rate that it gives; `speedup` is over plain decoding with the same host time."""

    draft_length: int
    rate: float
    speedup: float


def optimal_draft_length(acceptance: Seq[float], target_ms: Seq[float], draft_step_ms: float, host_ms: float = 0.0) -> Optimum:
    """Exact search over all lengths, none included, that T(b) and `acceptance` are known for; the shortest among equals."""
    longest = min(len(acceptance), len(target_ms) - 1)
    rates = [rate(acceptance[:length], target_ms, draft_step_ms, host_ms) for length in range(longest + 1)]
    best = max(range(longest + 1), key=rates.__getitem__)
    return Optimum(best, rates[best], rates[best] / rates[0])


def machine_ceiling(target_ms: Seq[float]) -> float:
    """Max over b of b T(1) / T(b): the speedup of a perfect drafter that costs nothing."""
    return max(rows * target_ms[0] / ms for rows, ms in enumerate(target_ms, start=1))


def break_even_alpha(draft_cost: float, row_cost: float) -> float:
    """The acceptance above which drafting one token pays, for D = c T(1) and T(b) = T(1) (1 + v (b - 1)): c + v."""
    return draft_cost + row_cost


def optimal_draft_length_linear(alpha: float, draft_cost: float, row_cost: float) -> float:
    """The real-valued optimum for equal acceptance, D = c T(1) and T(b) = T(1) (1 + v (b - 1)); 0 below break-even.

    With k = c + v, l = -ln a and u = -W(-exp(-1 - l (1 - k) / k)) on the lower branch: g* = (u - 1) / l - (1 - k) / k - 1.

    Args:
        alpha: in (0, 1).
        draft_cost: c = D / T(1), at least 0.
        row_cost: v, the marginal cost of a target row over T(1), at least 0; c + v must be above 0.

    Raises:
        ConfigError: an argument out of range.
    """
    if not 0.0 < alpha < 1.0:
        raise ConfigError(f"alpha is {alpha:g}", "it must be above 0 and below 1")
    token_cost = draft_cost + row_cost
    if draft_cost < 0.0 or row_cost < 0.0 or token_cost == 0.0:
        raise ConfigError(f"a drafted token costs {draft_cost:g} + {row_cost:g} plain passes", "both must be at least 0 and not both 0")
    if alpha <= break_even_alpha(draft_cost, row_cost):
        return 0.0
    decay = -math.log(alpha)
    fixed_share = (1.0 - token_cost) / token_cost
    # g* = (u - 1) / l - (1 - k) / k - 1; written with u - 1 itself, which loses no digits near the branch point
    return max(0.0, _lower_branch_excess(decay * fixed_share) / decay - fixed_share - 1.0)


def lambert_w_lower(x: float) -> float:
    """W of the lower real branch: the w <= -1 with w exp(w) = x.

    Args:
        x: from -1/e to below 0.

    Raises:
        ConfigError: x is outside of that.
    """
    branch_point = -math.exp(-1.0)
    if not branch_point <= x < 0.0:
        raise ConfigError(f"the lower branch of Lambert's W has no value at {x!r}", "its argument must be from -1/e to below 0")
    return -1.0 - _lower_branch_excess(max(0.0, -1.0 - math.log(-x)))


def _lower_branch_excess(y: float) -> float:
    """The d >= 0 with d - ln(1 + d) = y, y >= 0: then -1 - d is W(-exp(-1 - y)) on the lower branch.

    Newton's method from above: d - ln(1 + d) is convex and sqrt(2y) + y lies above the root (Chatzigeorgiou, IEEE
    Communications Letters 17, 2013), so the iterates fall towards it and the first that doesn't fall is it.
    """
    excess = math.sqrt(2.0 * y) + y
    while excess > 0.0:
        step = (excess - math.log1p(excess) - y) * (1.0 + excess) / excess
        if not excess - step < excess:
            break
        excess -= step
    return excess
