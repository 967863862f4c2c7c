"""The native CPU engine: a small adapter over the C++ core that keeps the ports of `outrider.model`.

Rows are bit-exact whatever else is in the pass: see docs/architecture.md. Importing this package needs the compiled core;
`is_available` says whether it is there.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.native.loading import load, load_checked, unsupported_reason
    from outrider.native.model import NativeModel
    from outrider.native.options import CACHE_TYPES, MAX_THREADS, PROMPT_ROWS, NativeOptions
    from outrider.native.tokenizer import NativeTokenizer, doubtful_tokenizer, unknown_tokenizer

__all__ = [
    "CACHE_TYPES",
    "MAX_THREADS",
    "PROMPT_ROWS",
    "NativeModel",
    "NativeOptions",
    "NativeTokenizer",
    "doubtful_tokenizer",
    "has_fast_kernels",
    "instruction_sets",
    "is_available",
    "load",
    "load_checked",
    "machine_limits",
    "unknown_tokenizer",
    "unsupported_reason",
]

_HOMES = {
    "CACHE_TYPES": "options",
    "MAX_THREADS": "options",
    "PROMPT_ROWS": "options",
    "NativeModel": "model",
    "NativeOptions": "options",
    "NativeTokenizer": "tokenizer",
    "doubtful_tokenizer": "tokenizer",
    "load": "loading",
    "load_checked": "loading",
    "unknown_tokenizer": "tokenizer",
    "unsupported_reason": "loading",
}


def is_available() -> bool:
    """Whether this installation was built with the core."""
    return find_spec("outrider.native._core") is not None


def instruction_sets() -> list[str]:
    """The instruction sets that this CPU has kernels for, the best one first; "scalar" is always there."""
    from outrider.native import _core

    return _core.instruction_sets()


def has_fast_kernels() -> bool:
    """Whether the core has more than its scalar reference for this CPU."""
    return instruction_sets() != ["scalar"]


def machine_limits(threads: int, isa: str, n_bytes: int) -> tuple[float, float]:
    """What the machine does at best, right now: 10^9 bytes per second out of memory, 10^9 int8 multiply-adds per second.

    Args:
        threads: that read and multiply at the same time.
        isa: one of `instruction_sets`.
        n_bytes: that are read, again and again; more than the caches hold.
    """
    from outrider.native import _core

    return _core.stream_gb_per_s(threads, n_bytes), _core.int8_gmac_per_s(threads, isa)


def __getattr__(name: str) -> object:  # names are found when they are used, so that `is_available` works without the core
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    found: object = getattr(import_module(f"outrider.native.{_HOMES[name]}"), name)
    return found
