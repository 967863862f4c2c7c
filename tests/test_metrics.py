"""Counters in, rates derived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import EngineError
from outrider.metrics import DrafterMetrics, PositionMetrics, RunMetrics
from outrider.policy.policy import StepRecord
from outrider.sampling.noise import KeyedNoise
from outrider.types import EMPTY_DRAFT, ROOT, Distribution, Draft, TokenKind, Verification
from outrider.verify import make_verifier
from tests.laws.verifying import ModelRows
from tests.property.strategies import drafts


def record(
    draft: Draft = EMPTY_DRAFT,
    n_kept: int = 0,
    *,
    cut: int = 0,
    n_proposed: int | None = None,
    times: tuple[float, float, float] = (1.0, 10.0, 0.5),
) -> StepRecord:
    """A step that kept the first `n_kept` nodes of a chain, and whose emission was cut by `cut` tokens."""
    at_end = n_kept == len(draft)
    kind = TokenKind.PLAIN if not len(draft) else TokenKind.BONUS if at_end else TokenKind.RECOVERED
    verification = Verification(tuple(range(n_kept)), 99, kind, () if at_end else (n_kept,))
    n_emitted = n_kept + 1 - cut
    n_proposed = len(draft) if n_proposed is None else n_proposed
    return StepRecord(draft, n_proposed, verification, n_emitted, min(n_emitted, n_kept), *times)


def chain(length: int, source: str = "model") -> Draft:
    return Draft.chain([1] * length, source)


def metrics_of(*records: StepRecord) -> RunMetrics:
    metrics = RunMetrics()
    for step in records:
        metrics.add(step)
    return metrics


def test_before_the_first_step_every_rate_is_unknown() -> None:
    metrics = RunMetrics()
    rates = [metrics.acceptance_rate, metrics.alpha, metrics.block_efficiency, metrics.plain_pass_ms]
    assert rates == [None] * 4


def test_plain_decoding_has_block_efficiency_one_and_no_acceptance() -> None:
    metrics = metrics_of(record(), record(), record())
    assert (metrics.steps, metrics.emitted, metrics.drafted, metrics.drafted_steps) == (3, 3, 0, 0)
    assert metrics.block_efficiency == 1.0
    assert metrics.acceptance_rate is None
    assert metrics.alpha is None
    assert metrics.by_drafter == {}
    assert metrics.accepted_lengths == []


def test_counters_and_rates_of_a_speculative_run() -> None:
    metrics = metrics_of(record(), record(chain(4), 4), record(chain(4), 1), record(chain(2), 0, n_proposed=5))
    assert (metrics.steps, metrics.emitted, metrics.proposed, metrics.drafted, metrics.accepted, metrics.refused) == (4, 9, 13, 10, 5, 2)
    assert metrics.acceptance_rate == 0.5
    assert metrics.alpha == pytest.approx(5 / 7)
    assert metrics.block_efficiency == 9 / 4
    assert metrics.accepted_lengths == [1, 1, 0, 0, 1]
    assert metrics.by_position == [PositionMetrics(3, 2), PositionMetrics(2, 1), PositionMetrics(1, 1), PositionMetrics(1, 1)]
    assert metrics.by_position[0].acceptance_rate == pytest.approx(2 / 3)


def test_each_drafter_is_counted_by_itself() -> None:
    mixed = Draft((1, 2, 3), (ROOT, 0, 1), ("suffix", "suffix", "model"), (None,) * 3, (1.0,) * 3)
    metrics = metrics_of(record(mixed, 1), record(chain(2), 2))
    assert metrics.by_drafter == {"suffix": DrafterMetrics(2, 1), "model": DrafterMetrics(3, 2)}
    assert metrics.by_drafter["suffix"].acceptance_rate == 0.5
    assert DrafterMetrics().acceptance_rate is None


def test_a_cut_counts_only_what_was_emitted() -> None:
    bonus_cut = metrics_of(record(chain(3), 3, cut=1))
    assert (bonus_cut.emitted, bonus_cut.accepted, bonus_cut.cut) == (3, 3, 1)
    within = metrics_of(record(chain(4), 3, cut=2))  # the refusal lies behind the cut
    assert (within.emitted, within.accepted, within.refused, within.cut) == (2, 2, 0, 1)
    assert within.by_position == [PositionMetrics(1, 1), PositionMetrics(1, 1)]
    assert within.by_drafter == {"model": DrafterMetrics(4, 2)}
    recovered_cut = metrics_of(record(chain(4), 3, cut=1))  # an end token took the refused one's place
    assert (recovered_cut.accepted, recovered_cut.refused) == (3, 1)
    nothing = metrics_of(record(chain(2), 2, cut=3))
    assert (nothing.emitted, nothing.accepted, nothing.cut) == (0, 0, 1)


def test_a_pass_is_worth_the_end_token_that_it_found() -> None:
    assert metrics_of(record(), record(cut=1)).block_efficiency == 1.0  # plain decoding: a token, and the end in a step of its own
    assert metrics_of(record(cut=1)).block_efficiency == 1.0
    assert metrics_of(record(), record(chain(3), 3, cut=1)).block_efficiency == 2.5


def test_siblings_are_one_position() -> None:
    tree = Draft((1, 2, 3, 4), (ROOT, ROOT, 1, 1), ("model",) * 4, (None,) * 4, (1.0,) * 4)
    metrics = metrics_of(StepRecord(tree, 4, Verification((1,), 9, TokenKind.RECOVERED, (0, 2, 3)), 2, 1, 1.0, 2.0, 3.0))
    assert metrics.by_position == [PositionMetrics(1, 1), PositionMetrics(1, 0)]
    assert (metrics.accepted, metrics.refused) == (1, 3)
    assert metrics.alpha == 0.25


def test_times_are_split_and_the_plain_pass_leaves_the_first_step_out() -> None:
    first = record(times=(0.0, 500.0, 1.0))  # ends the prompt
    metrics = metrics_of(first, record(chain(3), 3, times=(6.0, 12.0, 2.0)), record(times=(0.0, 10.0, 0.0)))
    assert (metrics.draft_ms, metrics.verify_ms, metrics.host_ms) == (6.0, 522.0, 3.0)
    assert metrics.plain_pass_ms == 10.0


def test_the_plain_pass_is_a_median_and_never_the_first_step() -> None:
    times = [900.0, 10.0, 11.0, 50.0]
    assert metrics_of(*[record(times=(0.0, ms, 0.0)) for ms in times]).plain_pass_ms == 11.0


def test_without_plain_passes_their_time_is_read_off_the_line_of_the_others() -> None:
    steps = [record(times=(0.0, 900.0, 0.0)), *[record(chain(rows - 1), 1, times=(0.0, 9.0 + rows, 0.0)) for rows in (2, 3, 5, 5)]]
    assert metrics_of(*steps).plain_pass_ms == pytest.approx(10.0)


@pytest.mark.parametrize("passes", [[(4, 20.0)], [(4, 20.0), (8, 10.0)], [(4, 1.0), (5, 2.0)]], ids=["one width", "falling", "below zero"])
def test_a_line_that_makes_no_sense_is_no_estimate(passes: list[tuple[int, float]]) -> None:
    metrics = metrics_of(record(), *[record(chain(rows - 1), 1, times=(1.0, ms, 0.0)) for rows, ms in passes])
    assert metrics.plain_pass_ms is None


@pytest.mark.parametrize(("n_emitted", "n_accepted"), [(4, 3), (4, 2), (1, 2), (0, -1)])
def test_a_record_that_contradicts_itself_is_refused(n_emitted: int, n_accepted: int) -> None:
    good = record(chain(3), 2)
    bad = StepRecord(good.draft, 3, good.verification, n_emitted, n_accepted, 1.0, 1.0, 1.0)
    metrics = RunMetrics()
    with pytest.raises(EngineError):
        metrics.add(bad)
    assert metrics == RunMetrics()


@given(st.lists(st.tuples(drafts(3), st.integers(0, 2**32), st.integers(0, 2)), max_size=6), st.booleans())
def test_laws_of_the_counters(steps: list[tuple[Draft, int, int]], cut_last: bool) -> None:
    metrics = RunMetrics()
    uniform = Distribution.point(1)
    for number, (draft, seed, name) in enumerate(steps):
        verifier = make_verifier(("greedy", "match", "rejection")[name])
        verification = verifier.verify(draft, ModelRows(lambda _: uniform, (0,), draft), KeyedNoise(seed))
        n_whole = len(verification.path) + 1
        n_emitted = seed % (n_whole + 1) if cut_last and number == len(steps) - 1 else n_whole
        n_accepted = min(n_emitted, len(verification.path))
        metrics.add(StepRecord(draft, len(draft), verification, n_emitted, n_accepted, 1.0, 2.0, 0.5))
    assert metrics.emitted == metrics.accepted + metrics.steps - metrics.cut
    assert metrics.cut <= 1
    assert metrics.block_efficiency is None or metrics.block_efficiency == (metrics.accepted + metrics.steps) / metrics.steps
    assert metrics.accepted <= metrics.drafted <= metrics.proposed
    assert sum(metrics.accepted_lengths) == metrics.drafted_steps
    assert sum(length * count for length, count in enumerate(metrics.accepted_lengths)) == metrics.accepted
    assert sum(drafter.accepted for drafter in metrics.by_drafter.values()) == metrics.accepted
    assert sum(drafter.drafted for drafter in metrics.by_drafter.values()) == metrics.drafted
    assert sum(position.accepted for position in metrics.by_position) == metrics.accepted
    assert all(position.accepted <= position.reached for position in metrics.by_position)
