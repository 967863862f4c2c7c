"""A measured verify curve as a document: plain data for a JSON file, and all that a table or a report is made from."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from typing import Any, Final

from outrider.bench.curve import CurveRun, Probes, Sample
from outrider.bench.figures import Figures
from outrider.bench.limits import PassCost
from outrider.bench.plan import YARDSTICK, CurvePlan, PassShape

KIND: Final = "outrider bench curve"
VERSION: Final = 1
"""Raised when a reader of older documents would misunderstand a newer one."""

BUSY_SPREAD: Final = 0.1
"""From this spread of T(1) on a machine counts as busy: something else ran on it."""


@dataclass(frozen=True, slots=True)
class CurveFacts:
    """What is known before the first pass.

    Attributes:
        engines: name to what it says about itself.
        cost: of the model's passes, None if unknown.
        isa: instruction set that the int8 limit is measured with.
        threads: of every engine and every probe.
        provenance: as `bench.provenance` makes it, with `load_average` before.
    """

    engines: Mapping[str, Mapping[str, Any]]
    cost: PassCost | None
    isa: str | None
    threads: int
    provenance: Mapping[str, Any]


def curve_document(run: CurveRun, plan: CurvePlan, facts: CurveFacts, load_after: float | None) -> dict[str, Any]:
    """The document of a measurement that ended, or of its rounds so far.

    Times are milliseconds. `relative` is T(b)/T(1) and `ratio` the time of llama over that of native: both are medians of the ratios
    inside a round, which a machine that slows down in between leaves alone. `share_of_limit` compares the fastest pass with the
    best that the probes saw. `ceilings` says what a perfect drafter at no cost would gain. `error` is left to whoever catches one.
    """
    limits = _limits(run.probes, facts)
    points = [
        _point(run, facts, limits, context, shape)
        for context in plan.contexts
        for shape in (YARDSTICK, *plan.shapes)
        if any((context, shape, name) in run.samples for name in facts.engines)
    ]
    load = facts.provenance.get("load_average")
    return {
        "kind": KIND,
        "version": VERSION,
        "partial": run.is_partial,
        "error": None,
        "clock": "cpu" if plan.cpu_time else "wall",
        "threads": facts.threads,
        "plan": asdict(plan),
        "engines": {name: dict(found) for name, found in facts.engines.items()},
        "limits": limits,
        "noise": _noise(run, plan, facts),
        "points": points,
        "ceilings": [found for context in plan.contexts for name in facts.engines for found in _ceiling(points, context, name)],
        "provenance": {**facts.provenance, "load_average": {"before": load, "after": load_after}},
    }


def _limits(probes: Probes, facts: CurveFacts) -> dict[str, Any]:
    return {
        "isa": facts.isa,
        "stream_gb_per_s": max(probes.stream_gb_per_s, default=None),
        "int8_gmac_per_s": max(probes.int8_gmac_per_s, default=None),
        "stream_gb_per_s_samples": list(probes.stream_gb_per_s),
        "int8_gmac_per_s_samples": list(probes.int8_gmac_per_s),
    }


def _noise(run: CurveRun, plan: CurvePlan, facts: CurveFacts) -> dict[str, Any]:
    """The widest spread of T(1) over engines and contexts."""
    times = [run.samples.get((context, YARDSTICK, name), []) for context in plan.contexts for name in facts.engines]
    spreads = [Figures.of([sample.seconds for sample in found]).spread for found in times if found]
    spread = max(spreads, default=None)
    return {"spread": spread, "is_busy": spread is not None and spread > BUSY_SPREAD, "busy_from": BUSY_SPREAD}


def _point(run: CurveRun, facts: CurveFacts, limits: Mapping[str, Any], context: int, shape: PassShape) -> dict[str, Any]:
    least = _least(facts.cost, limits, context, shape)
    floor_ms = max((value for value in (least["stream_ms"], least["int8_ms"]) if value is not None), default=None)
    engines: dict[str, Any] = {}
    for name in facts.engines:
        if samples := run.samples.get((context, shape, name)):
            engines[name] = _engine_point(samples, run.samples.get((context, YARDSTICK, name), []), floor_ms)
    native, llama = (run.samples.get((context, shape, name), []) for name in ("native", "llama"))
    return {
        "context": context,
        "rows": shape.n_rows,
        "logits_rows": shape.n_outputs,
        "limit": least,
        "engines": engines,
        "ratio": _paired(llama, native),
    }


def _ceiling(points: Seq[Mapping[str, Any]], context: int, name: str) -> list[dict[str, Any]]:
    """The machine ceiling over the measured rows whose logits were all computed: the largest b T(1) / T(b), and its b; or nothing."""
    gains = [
        (point["rows"] / point["engines"][name]["relative"], point["rows"])
        for point in points
        if point["context"] == context and point["rows"] == point["logits_rows"] and name in point["engines"]
        if point["engines"][name]["relative"]
    ]
    if not gains:
        return []
    value, rows = max(gains)
    return [{"context": context, "engine": name, "rows": rows, "value": value}]


def _least(cost: PassCost | None, limits: Mapping[str, Any], context: int, shape: PassShape) -> dict[str, Any]:
    """What the pass must read and multiply, and how long that takes at best."""
    stream, int8 = limits["stream_gb_per_s"], limits["int8_gmac_per_s"]
    n_bytes = None if cost is None else round(cost.n_bytes(context))
    n_macs = None if cost is None else cost.n_macs(shape)
    return {
        "bytes": n_bytes,
        "int8_macs": n_macs,
        "stream_ms": n_bytes / stream / 1e6 if n_bytes and stream else None,
        "int8_ms": n_macs / int8 / 1e6 if n_macs and int8 else None,
    }


def _engine_point(samples: Seq[Sample], yardsticks: Seq[Sample], floor_ms: float | None) -> dict[str, Any]:
    milliseconds = [sample.seconds * 1e3 for sample in samples]
    found = Figures.of(milliseconds)
    return {
        "n": found.n,
        "min_ms": found.minimum,
        "q1_ms": found.q1,
        "median_ms": found.median,
        "q3_ms": found.q3,
        "max_ms": found.maximum,
        "relative": _paired(samples, yardsticks),
        "share_of_limit": floor_ms / found.minimum if floor_ms is not None and found.minimum else None,
        "rounds": [sample.round for sample in samples],
        "samples_ms": milliseconds,
    }


def _paired(ours: Seq[Sample], theirs: Seq[Sample]) -> float | None:
    """Median over the rounds that have both of the time of ours over that of theirs; None without such a round."""
    first, second = _by_round(ours), _by_round(theirs)
    ratios = [first[index] / second[index] for index in first.keys() & second.keys() if second[index]]
    return statistics.median(ratios) if ratios else None


def _by_round(samples: Seq[Sample]) -> dict[int, float]:
    rounds: dict[int, list[float]] = {}
    for sample in samples:
        rounds.setdefault(sample.round, []).append(sample.seconds)
    return {index: statistics.median(times) for index, times in rounds.items()}
