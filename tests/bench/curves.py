"""A measurement on table models and a clock that the test winds: what passes cost is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

from outrider.bench.curve import Contender, CurveRun, Instruments
from outrider.bench.document import CurveFacts, curve_document
from outrider.bench.limits import PassCost
from outrider.bench.plan import CurvePlan
from outrider.testing import TableModel, random_table

N_VOCAB = 32
COST = PassCost(weight_bytes=10**6, cache_bytes_per_position=100.0, layer_weights=2 * 10**6, head_weights=10**6)
PROVENANCE = {
    "command": "outrider bench curve -m tiny.gguf",
    "date": "2026-12-01T00:00:00+00:00",
    "machine": {"cpu": {"model": "A processor"}, "memory": {}, "platform": "Linux"},
    "versions": {"outrider": "0"},
    "commit": None,
    "uncommitted_changes": None,
    "models": {"target": {"file": "tiny.gguf", "bytes": 1, "sha256": "0"}},
    "load_average": 0.5,
}


class Bench:
    """Two table models that share a clock.

    Args:
        plan: what to time.
        cost_s: name, rows and number of the timed or untimed pass over all engines to the seconds that it takes.
        names: of the engines.
    """

    def __init__(
        self,
        plan: CurvePlan,
        cost_s: Callable[[str, int, int], float] = lambda name, rows, number: 1.0,
        names: tuple[str, ...] = ("native", "llama"),
    ) -> None:
        self.now = 0.0
        self.order: list[tuple[str, int]] = []
        self.heard: list[tuple[float, str]] = []
        self.n_rounds = 0
        self.stop = Event()
        self.stop_after: int | None = None
        self.pauses: list[float] = []
        self.models = {name: self._model(name, plan, cost_s) for name in names}
        self.plan = plan
        tools = Instruments(lambda: self.now, self._probe, self.pauses.append)
        self._limits: Iterator[tuple[float, float]] = iter([(10.0, 100.0), (8.0, 120.0)] + [(1.0, 1.0)] * 100)
        self.run = CurveRun([Contender(name, model) for name, model in self.models.items()], plan, tools, self, self.stop)

    def _probe(self) -> tuple[float, float]:
        return next(self._limits)

    def _model(self, name: str, plan: CurvePlan, cost_s: Callable[[str, int, int], float]) -> TableModel:
        bench = self

        class Timed(TableModel):
            def evaluate(self, segments: Any, cancel: Event | None = None) -> Any:
                n_rows = len(segments[0].tokens)
                bench.order.append((name, n_rows))
                bench.now += cost_s(name, n_rows, len(bench.order) - 1)
                if bench.stop_after is not None and len(bench.order) > bench.stop_after:
                    bench.stop.set()
                return super().evaluate(segments, cancel)

        return Timed(random_table(N_VOCAB, order=1), N_VOCAB, n_context=plan.n_context, max_rows=plan.max_rows, max_sequences=1)

    def advance(self, share: float, what: str) -> None:
        self.heard.append((share, what))

    def round_ended(self) -> None:
        self.n_rounds += 1

    def document(self) -> dict[str, Any]:
        engines = {name: {"version": f"{name} 1", "device": "cpu", "cache": "f16/f16"} for name in self.models}
        return curve_document(self.run, self.plan, CurveFacts(engines, COST, "avx2", 2, PROVENANCE), 0.75)
