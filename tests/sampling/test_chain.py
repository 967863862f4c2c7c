"""The sampler chain against a slow reference that follows llama.cpp's rules one by one, and at its edges."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.config import SamplingOptions
from outrider.errors import EngineError
from outrider.sampling.chain import SamplerChain
from outrider.types import Logits
from tests.property.strategies import logit_rows, sampling_options

OFF = SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
INF = math.inf


def row_of(*logits: float) -> Logits:
    return np.array(logits, dtype=np.float32)


def slow_penalties(logits: list[float], history: list[int], options: SamplingOptions) -> list[float]:
    recent = Counter(history[-options.penalty_last_n :] if options.penalty_last_n else [])
    penalised = list(logits)
    for token, count in recent.items():
        if token < len(logits):
            value = penalised[token]
            value = value * options.repeat_penalty if value <= 0 else value / options.repeat_penalty
            value -= count * options.frequency_penalty + options.presence_penalty
            penalised[token] = float(np.float32(value))
    return penalised


def slow_chain(logits: Logits, history: list[int], options: SamplingOptions) -> dict[int, float]:
    """Penalties, then a ranked list that top-k, top-p and min-p shorten, then the temperature."""
    values = slow_penalties(logits.tolist(), history, options)
    ranked = sorted((token for token, value in enumerate(values) if value > -INF), key=lambda token: (-values[token], token))
    if options.top_k:
        ranked = ranked[: options.top_k]
    best = values[ranked[0]]
    weights = {token: math.exp(values[token] - best) for token in ranked}
    if options.top_p < 1.0:
        total, reached, kept = math.fsum(weights.values()), 0.0, []
        for token in ranked:
            kept.append(token)
            reached += weights[token]
            if reached >= options.top_p * total:
                break
        ranked = kept
    ranked = [token for token in ranked if weights[token] >= options.min_p]
    final = {token: math.exp((values[token] - best) / options.temperature) for token in ranked}
    total = math.fsum(final.values())
    return {token: weight / total for token, weight in final.items() if weight > 0.0}


HISTORIES = st.lists(st.integers(0, 12), max_size=8)


@given(logit_rows(9), HISTORIES, sampling_options())
def test_distribution_equals_the_slow_reference(logits: Logits, history: list[int], options: SamplingOptions) -> None:
    distribution = SamplerChain(options).distribution(logits, history)
    expected = slow_chain(logits, history, options)
    assert distribution.ids.tolist() == sorted(expected)
    np.testing.assert_allclose(distribution.probs, [expected[token] for token in sorted(expected)], rtol=1e-9)
    assert distribution.ids.dtype == np.int64
    assert distribution.probs.dtype == np.float64
    assert float(distribution.probs.sum()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("top_k", [0, 1, 40, 1000])
@pytest.mark.parametrize(("top_p", "min_p"), [(1.0, 0.0), (0.9, 0.0), (0.9, 0.02), (1.0, 0.1)])
def test_distribution_of_a_long_row_equals_the_slow_reference(top_k: int, top_p: float, min_p: float) -> None:
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 2, 20_001).astype(np.float32)
    logits[rng.integers(0, len(logits), 4000)] = np.float32(3.5)  # ties across the boundary of top-k
    logits[::7] = -INF
    options = replace(OFF, top_k=top_k, top_p=top_p, min_p=min_p, temperature=0.7)
    distribution = SamplerChain(options).distribution(logits, [])
    expected = slow_chain(logits, [], options)
    assert distribution.ids.tolist() == sorted(expected)
    np.testing.assert_allclose(distribution.probs, [expected[token] for token in sorted(expected)], rtol=1e-9)


@given(logit_rows(9), HISTORIES, sampling_options(greedy=True))
def test_greedy_takes_the_best_penalised_token_and_the_lowest_id_among_equals(
    logits: Logits, history: list[int], options: SamplingOptions
) -> None:
    chain = SamplerChain(options)
    values = slow_penalties(logits.tolist(), history, options)
    best = values.index(max(values))
    assert chain.argmax(logits, history) == best
    distribution = chain.distribution(logits, history)
    assert (distribution.ids.tolist(), distribution.probs.tolist()) == ([best], [1.0])


@given(logit_rows(9), HISTORIES, sampling_options())
def test_the_row_is_left_as_it_was(logits: Logits, history: list[int], options: SamplingOptions) -> None:
    before = logits.copy()
    logits.flags.writeable = False  # a view into a backend's memory may not be writable
    SamplerChain(options).distribution(logits, history)
    assert np.array_equal(logits, before)


def test_rules_in_order_top_p_sees_what_top_k_left_and_no_temperature() -> None:
    logits = np.log(row_of(0.4, 0.3, 0.2, 0.1))
    # after top-k 2 the shares are 4/7 and 3/7: 0.5 is reached by the first token alone; of the whole it would take two
    chain = SamplerChain(replace(OFF, top_k=2, top_p=0.5, temperature=100.0))
    assert chain.distribution(logits, []).ids.tolist() == [0]


def test_equal_logits_at_the_boundary_keep_the_lowest_ids() -> None:
    logits = row_of(1, 2, 1, 2, 1, 1)
    assert SamplerChain(replace(OFF, top_k=4)).distribution(logits, []).ids.tolist() == [0, 1, 2, 3]
    assert SamplerChain(replace(OFF, top_p=0.6)).distribution(logits, []).ids.tolist() == [0, 1, 3]


def test_top_k_counts_masked_tokens_out() -> None:
    logits = row_of(-INF, 1.0, -INF, 0.0)
    assert SamplerChain(replace(OFF, top_k=3)).distribution(logits, []).ids.tolist() == [1, 3]


def test_a_tiny_temperature_is_a_point_mass_and_no_warning() -> None:
    distribution = SamplerChain(replace(OFF, temperature=1e-320)).distribution(row_of(1.0, 2.0, 2.0, 0.0), [])
    assert distribution.ids.tolist() == [1, 2]
    assert distribution.probs.tolist() == [0.5, 0.5]


def test_penalties_look_at_the_last_tokens_only_and_know_when_they_are_on() -> None:
    options = replace(OFF, repeat_penalty=2.0, penalty_last_n=2, temperature=0.0)
    chain = SamplerChain(options)
    assert chain.argmax(row_of(4.0, 3.0, 1.0), [0, 1, 2]) == 0
    assert chain.argmax(row_of(4.0, 3.0, 1.0), [1, 2, 0]) == 1
    assert chain.needs_history
    assert not SamplerChain(replace(options, penalty_last_n=0)).needs_history
    assert not SamplerChain(replace(options, repeat_penalty=1.0)).needs_history
    assert SamplerChain(replace(OFF, presence_penalty=0.1)).needs_history
    assert SamplerChain(replace(OFF, frequency_penalty=-0.1)).needs_history


def test_is_greedy_means_temperature_zero() -> None:
    assert SamplerChain(replace(OFF, temperature=0.0)).is_greedy
    assert not SamplerChain(replace(OFF, top_k=1)).is_greedy


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (row_of(0.0, math.nan, 1.0), "nan"),
        (row_of(INF, 1.0, math.nan), "nan"),
        (row_of(0.0, INF), "inf"),
        (row_of(-INF, -INF), "every logit of a row is -inf"),
    ],
)
@pytest.mark.parametrize(
    "options", [OFF, replace(OFF, top_k=1), replace(OFF, temperature=0.0), replace(OFF, top_p=0.5, presence_penalty=1.0)]
)
def test_bad_logits_are_one_clear_error(logits: Logits, message: str, options: SamplingOptions) -> None:
    chain = SamplerChain(options)
    for use in (chain.argmax, chain.distribution):
        with pytest.raises(EngineError, match=message):
            use(logits, [0])
