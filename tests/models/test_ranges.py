from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from outrider.models.ranges import Range, covered, missing, with_range, without_range

SIZE = 40
SPANS = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE))


def positions(ranges: list[Range]) -> set[int]:
    return {position for start, end in ranges for position in range(start, end)}


def build(spans: list[tuple[int, int]]) -> list[Range]:
    ranges: list[Range] = []
    for start, end in spans:
        ranges = with_range(ranges, start, end)
    return ranges


@given(st.lists(SPANS), SPANS)
def test_ranges_behave_as_the_sets_that_they_stand_for(spans: list[tuple[int, int]], span: tuple[int, int]) -> None:
    ranges = build(spans)
    held = {position for start, end in spans for position in range(start, end)}
    asked = set(range(*span))
    assert positions(ranges) == held
    assert covered(ranges, *span) == len(held & asked)
    assert positions(missing(ranges, *span)) == asked - held
    assert positions(without_range(ranges, *span)) == held - asked


@given(st.lists(SPANS))
def test_ranges_stay_sorted_apart_and_not_empty(spans: list[tuple[int, int]]) -> None:
    ranges = build(spans)
    assert all(start < end for start, end in ranges)
    assert all(left[1] < right[0] for left, right in pairwise(ranges))
