"""A few numbers for many."""

from __future__ import annotations

import statistics
from collections.abc import Sequence as Seq
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Order statistics; quartiles lie between neighbours where they must (Hyndman and Fan's type 7)."""

    n: int
    minimum: float
    q1: float
    median: float
    q3: float
    maximum: float

    @staticmethod
    def of(values: Seq[float]) -> Figures:
        """Of at least one value."""
        if len(values) == 1:
            return Figures(1, *([values[0]] * 5))
        q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
        return Figures(len(values), min(values), q1, median, q3, max(values))

    @property
    def spread(self) -> float:
        """The middle half's width as a share of the median."""
        return (self.q3 - self.q1) / self.median if self.median else 0.0
