"""Options are checked before anything native sees them."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.config import CACHE_TYPES, ModelOptions
from outrider.errors import ConfigError
from outrider.llama import LlamaOptions, draft_options, target_options
from outrider.llama.geometry import _BYTES_PER_VALUE
from outrider.llama.options import CACHE_TYPE_IDS, FLASH_ATTENTION


@pytest.mark.parametrize(
    ("bad", "names"),
    [
        ({"n_context": -1}, "n_context"),
        ({"n_context": 2**31}, "n_context"),
        ({"n_sequences": 0}, "n_sequences"),
        ({"n_cells": -5}, "n_cells"),
        ({"max_rows": 1}, "max_rows"),
        ({"threads": -1}, "threads"),
        ({"gpu_layers": -2}, "-ngl"),
        ({"gpu_layers": -2, "layers_flag": "-ngld"}, "-ngld"),
        ({"flash_attention": "yes"}, "-fa"),
        ({"cache_type_k": "q9"}, "-ctk"),
        ({"cache_type_v": "Q8_0"}, "-ctv"),
        ({"cache_type_v": "q8_0", "flash_attention": "off"}, "-fa off"),
    ],
)
def test_bad_values_name_their_option(bad: dict[str, Any], names: str) -> None:
    with pytest.raises(ConfigError, match=names) as caught:
        LlamaOptions(**bad)
    assert caught.value.hint


def test_quantised_keys_need_no_flash_attention() -> None:
    assert LlamaOptions(cache_type_k="q8_0", flash_attention="off").quantised_types == ("q8_0",)


def test_every_word_of_the_command_line_has_a_native_value() -> None:
    assert set(CACHE_TYPE_IDS) == set(CACHE_TYPES) == set(_BYTES_PER_VALUE)
    assert set(FLASH_ATTENTION) == {"auto", "on", "off"}


def test_cache_type_numbers_are_the_package_s_own() -> None:
    from llama_cpp import llama_cpp as api

    for word, number in CACHE_TYPE_IDS.items():
        assert getattr(api, f"GGML_TYPE_{word.upper()}", 30 if word == "bf16" else None) == number


def test_target_takes_everything_from_the_command_line() -> None:
    given = ModelOptions(
        context=4096,
        threads=3,
        gpu_layers=-1,
        device="CUDA0",
        flash_attention="on",
        cache_type_k="q8_0",
        cache_type_v="q4_0",
        no_kv_offload=True,
    )
    options = target_options(given, n_sequences=8, draft_max=99)
    assert options == LlamaOptions(
        n_context=4096,
        n_sequences=8,
        max_rows=800,
        threads=3,
        gpu_layers=-1,
        device="CUDA0",
        flash_attention="on",
        cache_type_k="q8_0",
        cache_type_v="q4_0",
        kv_offload=False,
    )
    assert target_options(given, draft_max=16).max_rows == 512


def test_draft_has_its_own_threads_and_layers_and_the_target_s_context() -> None:
    given = ModelOptions(threads=4, draft_threads=2, gpu_layers=9, draft_gpu_layers=5, cache_type_k="q8_0")
    options = draft_options(given, 2048, n_sequences=2)
    assert (options.threads, options.gpu_layers, options.n_context, options.n_sequences) == (2, 5, 2048, 2)
    assert options.cap_context
    assert options.cache_type_k == "f16"
    assert draft_options(ModelOptions(threads=4), 2048).threads == 4
