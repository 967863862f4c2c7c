"""How a model is loaded through llama.cpp, checked before anything native sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from outrider.config import CACHE_TYPES, ModelOptions
from outrider.errors import ConfigError

PROMPT_ROWS: Final = 512
"""Rows of a pass over a prompt: enough to be limited by arithmetic, little enough to be cancelled soon."""

DEFAULT_CONTEXT: Final = 8192
"""Context where none is asked for, unless the model was trained with less: more would cost memory that few requests use."""

FLASH_ATTENTION: Final = {"auto": -1, "off": 0, "on": 1}
"""Words of `-fa` as llama.cpp's `llama_flash_attn_type`."""

CACHE_TYPE_IDS: Final = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "iq4_nl": 20}
"""Words of `-ctk` and `-ctv` as ggml types."""

CACHE_BLOCK: Final = 32
"""Values per block of every quantised type in CACHE_TYPE_IDS (ggml's QK)."""

_UNQUANTISED: Final = ("f32", "f16", "bf16")


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """What `load` needs to know beyond the file. Raises ConfigError when it is made with values that contradict each other.

    Attributes:
        n_context: positions that one sequence can hold; 0 means the training context, at most 8192.
        cap_context: never more than the training context, whatever n_context says.
        n_sequences: sequences that can be open at a time; they share one KV cache.
        n_cells: KV cells of that cache; 0 means n_context * n_sequences, so that no sequence can starve another. With less,
            sequences that share a prefix (forks) still fit, and others may get CacheFullError.
        max_rows: rows of the largest pass.
        threads: 0 means every CPU that the process may use (affinity and cgroup quota).
        gpu_layers: layers on the GPU, -1 for all.
        device: names separated by commas, "none" or "cpu" for the CPU alone, None for llama.cpp's own choice.
        flash_attention: "on", "off" or "auto".
        cache_type_k, cache_type_v: types of the cached keys and values.
        kv_offload: the KV cache follows its layer to the GPU.
        layers_flag: what `gpu_layers` is called on the command line, for messages.
    """

    n_context: int = 0
    cap_context: bool = False
    n_sequences: int = 1
    n_cells: int = 0
    max_rows: int = PROMPT_ROWS
    threads: int = 0
    gpu_layers: int = 0
    device: str | None = None
    flash_attention: str = "auto"
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    kv_offload: bool = True
    layers_flag: str = "-ngl"

    def __post_init__(self) -> None:
        _check_range("n_context", self.n_context, 0)
        _check_range("n_sequences", self.n_sequences, 1)
        _check_range("n_cells", self.n_cells, 0)
        _check_range("max_rows", self.max_rows, 2)  # the probe of the rollback kind needs two
        _check_range("threads", self.threads, 0)
        _check_range(self.layers_flag, self.gpu_layers, -1)
        _check_word("-fa", self.flash_attention, tuple(FLASH_ATTENTION))
        _check_word("-ctk", self.cache_type_k, CACHE_TYPES)
        _check_word("-ctv", self.cache_type_v, CACHE_TYPES)
        if self.cache_type_v not in _UNQUANTISED and self.flash_attention == "off":
            raise ConfigError(
                f"-ctv {self.cache_type_v} contradicts -fa off", "quantised values need flash attention: drop -fa off, or -ctv"
            )

    @property
    def quantised_types(self) -> tuple[str, ...]:
        """The cache types that are stored in blocks."""
        return tuple(word for word in (self.cache_type_k, self.cache_type_v) if word not in _UNQUANTISED)


def target_options(options: ModelOptions, *, n_sequences: int = 1, draft_max: int = 0) -> LlamaOptions:
    """The target's options.

    Args:
        options: as the user gave them.
        n_sequences: generations that run at the same time.
        draft_max: longest draft; the pending token and the drafts of every sequence fit one pass.
    """
    return LlamaOptions(
        n_context=options.context,
        n_sequences=n_sequences,
        max_rows=max(PROMPT_ROWS, n_sequences * (draft_max + 1)),
        threads=options.threads,
        gpu_layers=options.gpu_layers,
        device=options.device,
        flash_attention=options.flash_attention,
        cache_type_k=options.cache_type_k,
        cache_type_v=options.cache_type_v,
        kv_offload=not options.no_kv_offload,
    )


def draft_options(options: ModelOptions, n_context: int, *, n_sequences: int = 1) -> LlamaOptions:
    """The draft model's options: the target's device, its own threads and layers, an f16 cache (-ctk and -ctv are the target's).

    Args:
        options: as the user gave them.
        n_context: the target's context, once it is loaded; capped by what the draft model was trained with.
        n_sequences: as for the target.
    """
    return LlamaOptions(
        n_context=n_context,
        cap_context=True,
        n_sequences=n_sequences,
        threads=options.draft_threads or options.threads,
        gpu_layers=options.draft_gpu_layers,
        device=options.device,
        flash_attention=options.flash_attention,
        kv_offload=not options.no_kv_offload,
        layers_flag="-ngld",
    )


def _check_range(name: str, value: int, minimum: int) -> None:
    if not minimum <= value <= 2**31 - 1:  # llama.cpp keeps all of these in 32 bits
        raise ConfigError(f"{name} is {value}", f"it must be from {minimum} to {2**31 - 1}")


def _check_word(flag: str, word: str, choices: tuple[str, ...]) -> None:
    if word not in choices:
        raise ConfigError(f"{flag} is {word!r}", f"choose one of: {', '.join(choices)}")
