"""Lists of numbers as people write them: `1..17,24` and `256,2k`."""

from __future__ import annotations

import re
from typing import Final

from outrider.errors import ConfigError

_KIBI: Final = 1024
_MAX_DIGITS: Final = 9
_PART: Final = re.compile(r"(\d+)(k?)(?:\.\.(\d+)(k?))?", re.IGNORECASE)


def parse_counts(flag: str, text: str, low: int, high: int) -> tuple[int, ...]:
    """Rising numbers without repetition.

    Args:
        flag: what the error calls the text.
        text: numbers and ranges `a..b`, separated by commas; a `k` after a number multiplies it by 1024.
        low, high: inclusive range of every number.

    Raises:
        ConfigError: something else was written, or a number is out of range.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None or len(part) > 2 * _MAX_DIGITS:
            raise ConfigError(f"{flag} is {text!r}", "write numbers and ranges such as 1..17,24; k stands for 1024")
        first = _number(match[1], match[2])
        last = _number(match[3], match[4]) if match[3] else first
        if first > last:
            raise ConfigError(f"{flag} has the range {part.strip()}", "a range goes from the smaller number to the larger one")
        if first < low or last > high:
            raise ConfigError(f"{flag} has {part.strip()}", f"it must be from {low} to {high}")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _number(digits: str, unit: str) -> int:
    return int(digits) * (_KIBI if unit else 1)
