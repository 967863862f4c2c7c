"""How a model is loaded by the native engine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from outrider.errors import ConfigError

DEFAULT_CONTEXT: Final = 8192
"""Context where none is asked for, unless the model was trained with less. The cache grows by blocks, so this costs nothing."""

PROMPT_ROWS: Final = 512
"""Rows of a pass over a prompt: enough to be limited by arithmetic, little enough to be cancelled soon."""

MAX_THREADS: Final = 256
"""Threads that the core's pool takes."""

CACHE_TYPES: Final = ("f16", "q8_0")
"""Types of cached keys and values that the core has."""

CACHE_BLOCK: Final = 32
"""Values of a head that share a scale in a q8_0 cache."""

ISA_VARIABLE: Final = "OUTRIDER_ISA"
"""Environment variable that names the instruction set: avx512, avx-vnni, avx2 or scalar."""


@dataclass(frozen=True, slots=True)
class NativeOptions:
    """What `load` needs to know beyond the file.

    Attributes:
        n_context: positions that one sequence can hold; 0 means the training context, at most 8192.
        cap_context: never more than the training context, whatever n_context says.
        n_sequences: sequences that can be open at a time.
        max_rows: rows of the largest pass.
        threads: 0 means every CPU that the process may use (affinity and cgroup quota).
        head_tokens: a draft model may score only the first so many tokens, plus all special ones; the others get -inf. 0 means all.
        cache_type_k, cache_type_v: types of the cached keys and values, each one of CACHE_TYPES.
        isa: instruction set, "" for the best; the environment variable OUTRIDER_ISA comes first.

    Raises ConfigError for numbers out of range and unknown words.
    """

    n_context: int = 0
    cap_context: bool = False
    n_sequences: int = 1
    max_rows: int = PROMPT_ROWS
    threads: int = 0
    head_tokens: int = 0
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    isa: str = ""

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("n_context", self.n_context, 0, 1 << 24),
            ("n_sequences", self.n_sequences, 1, 1 << 16),
            ("max_rows", self.max_rows, 1, 1 << 16),
            ("threads", self.threads, 0, MAX_THREADS),
            ("head_tokens", self.head_tokens, 0, 1 << 24),
        ):
            if not low <= value <= high:
                raise ConfigError(f"{name} is {value}", f"use {low} to {high}")
        for flag, word in (("-ctk", self.cache_type_k), ("-ctv", self.cache_type_v)):
            if word not in CACHE_TYPES:
                raise ConfigError(f"{flag} is {word!r}", f"the native engine has {' and '.join(CACHE_TYPES)}")

    @property
    def instruction_set(self) -> str:
        """The set that was asked for, "" for none."""
        return os.environ.get(ISA_VARIABLE, "") or self.isa
