"""Lists of numbers as people write them."""

from __future__ import annotations

import pytest

from outrider.bench.counts import parse_counts
from outrider.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("5", (5,)),
        ("1..4,24", (1, 2, 3, 4, 24)),
        ("24, 1..3 ,2", (1, 2, 3, 24)),
        ("256,2k,1K", (256, 1024, 2048)),
        ("1k..1026", (1024, 1025, 1026)),
    ],
)
def test_lists_and_ranges(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_counts("--rows", text, 1, 4096) == numbers


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "a", "1..", "..3", "1-3", "1.5", "-1", "2m", "0", "4097", "5k", "4..1", "1..4097", "9" * 99]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--rows"):
        parse_counts("--rows", text, 1, 4096)
