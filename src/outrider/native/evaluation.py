"""The logits of one pass of the native engine, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from outrider.errors import EngineError, OutOfMemoryError
from outrider.native._core import Engine
from outrider.types import Logits, TokenIds

_T = TypeVar("_T")


class NativeEvaluation:
    """An `Evaluation` whose head is deferred: each row's logits are computed once, for the rows that somebody asks for.

    Args:
        engine: the core; it holds the final hidden state of every row until the next pass.
        announced: for each row of the pass, whether its segment wanted logits.
        is_current: whether the core still holds this pass.
    """

    def __init__(self, engine: Engine, announced: list[bool], is_current: Callable[[], bool]) -> None:
        self._engine = engine
        self._announced = announced
        self._is_current = is_current

    def rows(self, nodes: Seq[int]) -> Logits:
        """Float32 [len(nodes), n_vocab], a copy."""
        checked = self._checked(nodes)
        return self._guarded(lambda: self._engine.logits(checked))

    def argmax(self, nodes: Seq[int]) -> TokenIds:
        """Int64 [len(nodes)]; the lowest id among equals. Raises EngineError for NaN logits."""
        checked = self._checked(nodes)
        best = self._guarded(lambda: self._engine.argmax(checked))
        self._refuse(best < 0, nodes)
        return best

    def top_k(self, nodes: Seq[int], k: int) -> tuple[NDArray[np.int64], Logits]:
        """Ids and logits [len(nodes), k], best first; the lowest id first among equals. Raises EngineError for NaN logits."""
        checked = self._checked(nodes)
        self.argmax(nodes)  # order means nothing among NaN
        return self._guarded(lambda: self._engine.top_k(checked, k))

    def logsumexp(self, nodes: Seq[int]) -> NDArray[np.float64]:
        """Float64 [len(nodes)]. Raises EngineError for NaN logits."""
        checked = self._checked(nodes)
        sums = self._guarded(lambda: self._engine.logsumexp(checked))
        self._refuse(np.isnan(sums), nodes)
        return sums

    def _checked(self, nodes: Seq[int]) -> list[int]:
        if not self._is_current():
            raise EngineError("this evaluation is stale: the model has run another pass, or was closed")
        for node in nodes:
            if not (0 <= node < len(self._announced) and self._announced[node]):
                raise EngineError(f"row {node} was not announced as an output")
        return [int(node) for node in nodes]

    @staticmethod
    def _guarded(compute: Callable[[], _T]) -> _T:
        try:
            return compute()
        except MemoryError:
            raise OutOfMemoryError("no memory for logits", "ask for fewer rows at a time") from None
        except ValueError as error:
            raise EngineError(str(error)) from None

    @staticmethod
    def _refuse(bad: NDArray[np.bool_], nodes: Seq[int]) -> None:
        if bad.any():
            node = nodes[int(bad.argmax())]
            raise EngineError(f"the model's logits of row {node} are not numbers", "the file may be damaged: check it")
