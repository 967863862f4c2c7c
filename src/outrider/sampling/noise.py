"""Keyed noise: every random number of a generation is a hash of what it is for, so that no draw depends on another."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from outrider.errors import ConfigError
from outrider.types import TokenIds
from outrider.verify.verifier import Purpose

_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15  # odd, 2^64 over the golden ratio: the increment of splitmix64
_FACTOR_1: Final = 0xBF58476D1CE4E5B9
_FACTOR_2: Final = 0x94D049BB133111EB

# words that keep the families of draws apart: no two may be equal
_GUMBEL: Final = 0
_PURPOSES: Final = {Purpose.DRAFT: 1, Purpose.ACCEPT: 2, Purpose.RECOVER: 3}

_V_GOLDEN, _V_FACTOR_1, _V_FACTOR_2 = np.uint64(_GOLDEN), np.uint64(_FACTOR_1), np.uint64(_FACTOR_2)
_V_27, _V_30, _V_31, _V_12 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(12)


def absorb(state: int, word: int) -> int:
    """Output number `word` of the splitmix64 generator that starts at `state`, both 64 bits wide.

    Bijective in `word` for a given state, so two keys that differ in one word never share their noise. Source: Steele, Lea
    and Flood, "Fast splittable pseudorandom number generators" (2014), with the finaliser known as Stafford's mix 13.
    """
    mixed = (state + (word + 1) * _GOLDEN) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * _FACTOR_1) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * _FACTOR_2) & _MASK
    return mixed ^ (mixed >> 31)


class KeyedNoise:
    """The noise of one choice of one request. Implements `outrider.verify.verifier.Noise`; pure, so free to share.

    A key is a list of words, absorbed one after the other: seed, choice, family (Gumbel, or a purpose), then (position,
    token id) or (start, offset). The top bits of the final state make the number.

    Args:
        seed: 0 .. 2^64 - 1.
        choice: which of several answers to one request, from 0.

    Raises:
        ConfigError: the seed or the choice is out of range.
    """

    def __init__(self, seed: int, choice: int = 0) -> None:
        if not 0 <= seed <= _MASK:
            raise ConfigError(f"the seed is {seed}", "it must be from 0 to 2^64 - 1")
        if not 0 <= choice <= _MASK:
            raise ConfigError(f"the choice is {choice}", "it must be from 0 to 2^64 - 1")
        root = absorb(absorb(0, seed), choice)
        self._gumbel = absorb(root, _GUMBEL)
        self._uniform = {purpose: absorb(root, word) for purpose, word in _PURPOSES.items()}

    def gumbel(self, position: int, ids: TokenIds) -> NDArray[np.float64]:
        """Standard Gumbel noise, float64 [len(ids)], finite (from -3.6 to 36.8); each id's own, whatever the others are."""
        mixed = ids.astype(np.uint64)
        mixed += np.uint64(1)
        mixed *= _V_GOLDEN
        mixed += np.uint64(absorb(self._gumbel, position))
        mixed ^= mixed >> _V_30
        mixed *= _V_FACTOR_1
        mixed ^= mixed >> _V_27
        mixed *= _V_FACTOR_2
        mixed ^= mixed >> _V_31
        # odd multiples of 2^-53: never 0 or 1, and exact in float64, which 53 free bits plus a half would not be
        mixed >>= _V_12
        noise = mixed.astype(np.float64)
        noise += 0.5
        noise *= 2.0**-52
        np.log(noise, out=noise)
        np.negative(noise, out=noise)
        np.log(noise, out=noise)
        return np.negative(noise, out=noise)

    def uniform(self, start: int, offset: int, purpose: Purpose) -> float:
        """Uniform in [0, 1), a multiple of 2^-53."""
        return float(absorb(absorb(self._uniform[purpose], start), offset) >> 11) * 2.0**-53
