"""The sizes of a model that decide what its KV cache costs and which cache types it can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from outrider.errors import ConfigError, OutOfMemoryError
from outrider.llama.library import Library, ModelHandle
from outrider.llama.options import CACHE_BLOCK, LlamaOptions
from outrider.memory import available_memory

_BYTES_PER_VALUE: Final = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / CACHE_BLOCK,
    "q4_0": 18 / CACHE_BLOCK,
    "q4_1": 20 / CACHE_BLOCK,
    "q5_0": 22 / CACHE_BLOCK,
    "q5_1": 24 / CACHE_BLOCK,
    "iq4_nl": 18 / CACHE_BLOCK,
}
_GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """What one position of the KV cache holds.

    Attributes:
        n_layers: transformer blocks.
        n_kv_heads: key-value heads per block.
        key_length, value_length: values per head.
    """

    n_layers: int
    n_kv_heads: int
    key_length: int
    value_length: int

    def bytes_per_cell(self, key_type: str, value_type: str) -> float:
        """Bytes of one position over all layers."""
        per_head = self.key_length * _BYTES_PER_VALUE[key_type] + self.value_length * _BYTES_PER_VALUE[value_type]
        return self.n_layers * self.n_kv_heads * per_head


def cache_geometry(lib: Library, model: ModelHandle) -> CacheGeometry | None:
    """Read it from the file's metadata; None where the model is not so regular (sizes per layer, recurrent state)."""
    arch = lib.metadata(model, "general.architecture")

    def number(key: str) -> int | None:
        text = lib.metadata(model, f"{arch}.{key}")
        return int(text) if text is not None and text.isdecimal() else None

    n_layers, n_embd, n_heads = number("block_count"), number("embedding_length"), number("attention.head_count")
    if not n_layers or not n_embd or not n_heads or lib.is_recurrent(model):
        return None
    n_kv_heads = number("attention.head_count_kv")
    return CacheGeometry(
        n_layers=n_layers,
        n_kv_heads=n_heads if n_kv_heads is None else n_kv_heads,
        key_length=number("attention.key_length") or n_embd // n_heads,
        value_length=number("attention.value_length") or n_embd // n_heads,
    )


def check_cache(geometry: CacheGeometry | None, options: LlamaOptions, n_cells: int, *, on_cpu: bool) -> None:
    """Refuse what would end the process inside llama.cpp instead of raising.

    A quantised cache whose heads are no whole number of blocks fails one of ggml's checks, which abort. A cache that is larger than
    the free memory is granted by Linux and then filled with zeros until the process is killed.

    Args:
        geometry: of the model, None if unknown: then nothing is checked.
        options: for the cache types.
        n_cells: positions of the cache.
        on_cpu: whether the cache lies in ordinary memory.

    Raises:
        ConfigError: the cache type doesn't fit this model.
        OutOfMemoryError: the cache doesn't fit the free memory.
    """
    if geometry is None:
        return
    lengths = {geometry.key_length, geometry.value_length}
    for word in options.quantised_types:
        if odd := [length for length in lengths if length % CACHE_BLOCK]:
            raise ConfigError(
                f"cache type {word} needs heads of a multiple of {CACHE_BLOCK} values, and this model's have {odd[0]}",
                "use f16 for -ctk and -ctv",
            )
    needed = n_cells * geometry.bytes_per_cell(options.cache_type_k, options.cache_type_v)
    free = available_memory()
    if on_cpu and free is not None and needed > free:
        raise OutOfMemoryError(
            f"a KV cache of {n_cells} positions needs {needed / _GIB:.1f} GiB, and {free / _GIB:.1f} GiB are free",
            "lower -c, run fewer sequences, or use -ctk q8_0 -ctv q8_0",
        )
