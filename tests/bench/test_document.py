"""The document: figures whose answer is known, and a shape that readers can rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.bench.figures import Figures
from outrider.bench.plan import CurvePlan
from tests.bench.curves import Bench

PLAN = CurvePlan(rows=(1, 2, 4), prompt_rows=(8,), contexts=(3,), n_rounds=3)
NUMBER = (int, float)
POINT_ENGINE = {
    "n": int,
    **dict.fromkeys(("min_ms", "q1_ms", "median_ms", "q3_ms", "max_ms", "relative", "share_of_limit"), NUMBER),
    "rounds": [int],
    "samples_ms": [NUMBER],
}
SCHEMA: dict[str, Any] = {
    "kind": str,
    "version": int,
    "partial": bool,
    "error": (str, type(None)),
    "clock": str,
    "threads": int,
    "plan": {
        "rows": [int],
        "prompt_rows": [int],
        "contexts": [int],
        "n_rounds": (int, type(None)),
        "seconds": (*NUMBER, type(None)),
        "cpu_time": bool,
    },
    "engines": {"native": {"version": str, "device": str, "cache": str}, "llama": {"version": str, "device": str, "cache": str}},
    "limits": {
        "isa": str,
        "stream_gb_per_s": NUMBER,
        "int8_gmac_per_s": NUMBER,
        "stream_gb_per_s_samples": [NUMBER],
        "int8_gmac_per_s_samples": [NUMBER],
    },
    "noise": {"spread": NUMBER, "is_busy": bool, "busy_from": NUMBER},
    "points": [
        {
            "context": int,
            "rows": int,
            "logits_rows": int,
            "limit": {"bytes": int, "int8_macs": int, "stream_ms": NUMBER, "int8_ms": NUMBER},
            "engines": {"native": POINT_ENGINE, "llama": POINT_ENGINE},
            "ratio": NUMBER,
        }
    ],
    "ceilings": [{"context": int, "engine": str, "rows": int, "value": NUMBER}],
    "provenance": {
        "command": str,
        "date": str,
        "machine": {"cpu": dict, "memory": dict, "platform": str},
        "versions": dict,
        "commit": (str, type(None)),
        "uncommitted_changes": (bool, type(None)),
        "models": dict,
        "load_average": {"before": NUMBER, "after": NUMBER},
    },
}


def mismatches(found: Any, wanted: Any, at: str = "$") -> list[str]:
    """Where a document differs from a schema: a type, several types, a list of one schema, or a dictionary with exactly these keys."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or found.keys() != wanted.keys():
            return [f"{at}: {sorted(found) if isinstance(found, dict) else found!r}"]
        return [line for key in wanted for line in mismatches(found[key], wanted[key], f"{at}.{key}")]
    if isinstance(wanted, list):
        if not isinstance(found, list) or not found:
            return [f"{at}: {found!r}"]
        return [line for index, item in enumerate(found) for line in mismatches(item, wanted[0], f"{at}[{index}]")]
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    is_right = isinstance(found, kinds) and (not isinstance(found, bool) or bool in kinds)
    return [] if is_right else [f"{at}: {found!r}"]


def measured(bench: Bench) -> dict[str, Any]:
    bench.run.run()
    document: dict[str, Any] = json.loads(json.dumps(bench.document(), allow_nan=False))
    return document


def point(document: dict[str, Any], rows: int) -> dict[str, Any]:
    return next(found for found in document["points"] if found["rows"] == rows)


def test_the_document_has_the_shape_that_readers_rely_on() -> None:
    assert mismatches(measured(Bench(PLAN)), SCHEMA) == []


def test_the_schema_check_sees_what_is_wrong() -> None:
    document = measured(Bench(PLAN))
    document["partial"] = 1
    document["points"][0]["engines"]["native"]["min_ms"] = "fast"
    del document["noise"]["spread"]
    assert [line.partition(":")[0] for line in mismatches(document, SCHEMA)] == [
        "$.partial",
        "$.noise",
        "$.points[0].engines.native.min_ms",
    ]


def test_figures_of_known_passes() -> None:
    bench = Bench(PLAN, lambda name, rows, number: (0.010 + 0.001 * rows) * (3 if name == "llama" else 1))
    document = measured(bench)
    two = point(document, 2)
    assert two["engines"]["native"]["median_ms"] == pytest.approx(12)
    assert two["engines"]["native"]["relative"] == pytest.approx(12 / 11)
    assert two["engines"]["llama"]["relative"] == pytest.approx(12 / 11)
    assert two["ratio"] == pytest.approx(3)
    assert (two["engines"]["native"]["n"], point(document, 1)["engines"]["native"]["n"]) == (3, 6)
    assert not document["noise"]["is_busy"]


def test_limits_are_the_best_that_the_probes_saw() -> None:
    document = measured(Bench(PLAN, lambda name, rows, number: 0.001))
    assert (document["limits"]["stream_gb_per_s"], document["limits"]["int8_gmac_per_s"]) == (10.0, 120.0)
    four, prompt = point(document, 4), point(document, 8)
    assert four["limit"] == {
        "bytes": 1_000_300,
        "int8_macs": 12 * 10**6,
        "stream_ms": pytest.approx(0.10003),
        "int8_ms": pytest.approx(0.1),
    }
    assert four["engines"]["native"]["share_of_limit"] == pytest.approx(0.10003)
    assert prompt["limit"]["int8_macs"] == 17 * 10**6  # the head scores one row of eight
    assert prompt["engines"]["native"]["share_of_limit"] == pytest.approx(17 / 120)


def test_ratios_are_taken_inside_rounds_so_that_a_slower_machine_changes_none() -> None:
    def cost(name: str, rows: int, number: int) -> float:
        return (0.010 + 0.001 * rows) * (2 if name == "llama" else 1) * (1 if number < 18 else 5)

    document = measured(Bench(PLAN, cost))
    assert {round(found["ratio"], 6) for found in document["points"]} == {2.0}
    assert point(document, 4)["engines"]["native"]["relative"] == pytest.approx(14 / 11)
    assert document["noise"]["is_busy"]
    assert document["noise"]["spread"] > document["noise"]["busy_from"]


def test_the_ceiling_is_the_best_that_a_perfect_drafter_could_gain() -> None:
    costs = {1: 10.0, 2: 11.0, 4: 30.0, 8: 12.0}  # the pass over a prompt is no verification, however fast it is
    document = measured(Bench(PLAN, lambda name, rows, number: costs.get(rows, 1.0), names=("native",)))
    assert document["ceilings"] == [{"context": 3, "engine": "native", "rows": 2, "value": pytest.approx(2 * 10 / 11)}]


def test_one_engine_has_no_ratio() -> None:
    document = measured(Bench(PLAN, names=("llama",)))
    assert {found["ratio"] for found in document["points"]} == {None}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], Figures(1, 3, 3, 3, 3, 3)),
        ([1.0, 2.0], Figures(2, 1, 1.25, 1.5, 1.75, 2)),
        ([5.0, 1.0, 3.0, 2.0, 4.0], Figures(5, 1, 2, 3, 4, 5)),
    ],
)
def test_order_statistics(values: list[float], expected: Figures) -> None:
    assert Figures.of(values) == expected


def test_spread_is_the_middle_half_s_width() -> None:
    assert Figures.of([1.0, 2.0, 3.0, 4.0, 5.0]).spread == pytest.approx(2 / 3)
