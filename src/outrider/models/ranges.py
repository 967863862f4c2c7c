"""Sets of byte positions as sorted, disjoint half-open ranges: which bytes of a file have arrived."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""Half-open [start, end) with start < end, in bytes."""


def with_range(ranges: Seq[Range], start: int, end: int) -> list[Range]:
    """The ranges with [start, end) added; touching ranges become one. `ranges` must be sorted and disjoint."""
    if start >= end:
        return list(ranges)
    before = [item for item in ranges if item[1] < start]
    after = [item for item in ranges if item[0] > end]
    touched = ranges[len(before) : len(ranges) - len(after)]
    low = min([start, *(item[0] for item in touched)])
    high = max([end, *(item[1] for item in touched)])
    return [*before, (low, high), *after]


def without_range(ranges: Seq[Range], start: int, end: int) -> list[Range]:
    """The ranges with [start, end) taken out."""
    kept: list[Range] = []
    for low, high in ranges:
        pieces = ((low, min(high, start)), (max(low, end), high)) if start < end else ((low, high),)
        kept += [piece for piece in pieces if piece[0] < piece[1]]
    return kept


def covered(ranges: Seq[Range], start: int, end: int) -> int:
    """How many positions of [start, end) are in the ranges."""
    return sum(max(0, min(high, end) - max(low, start)) for low, high in ranges)


def missing(ranges: Seq[Range], start: int, end: int) -> list[Range]:
    """The parts of [start, end) that are not in the ranges, in order."""
    gaps = [(start, end)] if start < end else []
    for low, high in ranges:
        gaps = without_range(gaps, low, high)
    return gaps
