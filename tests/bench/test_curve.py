"""The measurement itself: what is timed, in which order, and what an interruption leaves."""

from __future__ import annotations

import pytest

from outrider.bench.plan import YARDSTICK, CurvePlan, PassShape
from outrider.errors import ConfigError, EngineError
from tests.bench.curves import Bench

PLAN = CurvePlan(rows=(1, 2, 4), prompt_rows=(8,), contexts=(3, 600), n_rounds=2)
SHAPES = [(1, 1), (2, 2), (4, 4), (8, 1)]


def test_every_shape_is_timed_in_every_round_and_one_row_twice() -> None:
    bench = Bench(PLAN)
    bench.run.run()
    counts = {key: len(samples) for key, samples in bench.run.samples.items()}
    expected = {
        (context, PassShape(*shape), name): 4 if shape == (1, 1) else 2
        for context in PLAN.contexts
        for shape in SHAPES
        for name in ("native", "llama")
    }
    assert counts == expected
    assert (bench.run.is_partial, bench.n_rounds) == (False, 4)
    assert bench.run.probes.stream_gb_per_s == [10.0, 8.0, 1.0, 1.0]


def test_engines_take_turns_and_every_other_round_goes_the_other_way() -> None:
    bench = Bench(CurvePlan(rows=(1, 2, 3), prompt_rows=(), contexts=(1,), n_rounds=2))
    bench.run.run()
    there = [(name, rows) for rows in (1, 2, 3, 1) for name in ("native", "llama")]
    back = [(name, rows) for rows in (1, 3, 2, 1) for name in ("llama", "native")]
    assert bench.order[-16:] == there + back


def test_the_context_is_filled_and_every_pass_leaves_it_as_it_was() -> None:
    bench = Bench(PLAN, names=("native",))
    bench.run.run()
    filling = [rows for rows in (row for _, row in bench.order) if rows not in (1, 2, 4, 8)]
    assert filling == [3, 512, 85]  # 3 tokens, then the 597 that are missing in two passes
    assert bench.models["native"].open_sequences == []


def test_logits_are_asked_for_in_every_row_but_those_of_a_prompt() -> None:
    bench = Bench(CurvePlan(rows=(3,), prompt_rows=(5,), contexts=(2,), n_rounds=1), names=("native",))
    bench.run.run()
    model = bench.models["native"]
    asked = {(rows[0], tuple(nodes)) for rows, nodes in zip(model.passes, model.outputs, strict=True)}
    assert asked == {(2, ()), (1, (0,)), (3, (0, 1, 2)), (5, (4,))}


def test_a_pause_comes_between_engines_only() -> None:
    alone = Bench(PLAN, names=("native",))
    alone.run.run()
    assert alone.pauses == []
    both = Bench(PLAN)
    both.run.run()
    assert both.pauses


def test_seconds_end_after_the_round_that_runs() -> None:
    bench = Bench(CurvePlan(rows=(1,), prompt_rows=(), contexts=(1, 2), n_rounds=None, seconds=1e-6))
    bench.run.run()
    assert (bench.n_rounds, bench.run.is_partial) == (2, False)


def test_progress_never_goes_back_and_ends_near_the_end() -> None:
    bench = Bench(PLAN)
    bench.run.run()
    shares = [share for share, _ in bench.heard]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert 0.95 < shares[-1] <= 1


def test_an_interruption_keeps_what_was_timed() -> None:
    bench = Bench(PLAN)
    bench.stop_after = 14
    bench.run.run()
    assert bench.run.is_partial
    assert 0 < len(bench.run.samples) < 16
    assert all(model.open_sequences == [] for model in bench.models.values())
    assert bench.document()["partial"]


def test_an_interruption_while_the_context_is_filled_is_no_error() -> None:
    bench = Bench(CurvePlan(rows=(1,), prompt_rows=(), contexts=(2000,), n_rounds=1), names=("native",))
    bench.stop_after = 1
    bench.run.run()
    assert (bench.run.is_partial, bench.run.samples) == (True, {})


def test_a_failing_pass_raises_and_the_samples_before_it_stand() -> None:
    bench = Bench(PLAN, names=("native",))
    bench.models["native"].failures[6] = EngineError("it broke")
    with pytest.raises(EngineError, match="it broke"):
        bench.run.run()
    assert (3, YARDSTICK, "native") in bench.run.samples
    assert bench.run.is_partial
    assert bench.models["native"].open_sequences == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": (), "prompt_rows": ()}, "no rows"),
        ({"contexts": ()}, "no context"),
        ({"contexts": (0, 5)}, "no context"),
        ({"n_rounds": None}, "contradict"),
        ({"seconds": 3.0}, "contradict"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CurvePlan(**{"rows": (1,), "prompt_rows": (), "contexts": (1,), **options})  # type: ignore[arg-type]
