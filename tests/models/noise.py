"""Bytes that no compression shortens and no accident repeats."""

from __future__ import annotations

import random


def noise(seed: int, n_bytes: int) -> bytes:
    return random.Random(seed).randbytes(n_bytes)  # noqa: S311  # has to be the same in every run
