"""The types of the cache: what q8_0 costs in accuracy and saves in memory, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from outrider.errors import ConfigError
from outrider.model import Segment
from outrider.native import NativeModel
from tests.native.conftest import Loader
from tests.native.tiny_models import Shape, write_model

TOKENS = tuple(int(token) for token in np.random.default_rng(9).integers(0, 300, 280))


def log_probs(model: NativeModel, tokens: tuple[int, ...]) -> NDArray[np.float64]:
    """[tokens, vocab] after each token."""
    evaluation = model.evaluate([Segment(model.open(), tokens)])
    nodes = range(len(tokens))
    return evaluation.rows(nodes).astype(np.float64) - evaluation.logsumexp(nodes)[:, None]


def mean_kl(exact: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float((np.exp(exact) * (exact - other)).sum(axis=1).mean())


@pytest.mark.parametrize(("keys", "values"), [("q8_0", "q8_0"), ("q8_0", "f16"), ("f16", "q8_0")])
def test_q8_0_is_close_to_f16_but_not_f16(mixed_file: Path, loaded: Loader, keys: str, values: str) -> None:
    exact = log_probs(loaded(mixed_file), TOKENS)
    rounded = log_probs(loaded(mixed_file, cache_type_k=keys, cache_type_v=values), TOKENS)
    # Measured: 1e-4, most of it because a changed last digit moves int8 roundings downstream.
    assert 0 < mean_kl(exact, rounded) < 5e-4


@pytest.mark.parametrize(
    ("keys", "values", "bits"), [("f16", "f16", 16), ("q8_0", "q8_0", 8.5), ("q8_0", "f16", 12.25), ("f16", "q8_0", 12.25)]
)
def test_bytes_are_those_of_the_types(mixed_file: Path, loaded: Loader, keys: str, values: str, bits: float) -> None:
    model = loaded(mixed_file, cache_type_k=keys, cache_type_v=values)
    sequence = model.open()
    assert model.engine.cache_bytes == 0
    sequence.reserve(257)
    n_numbers = 2 * Shape.layers * Shape.kv_heads * (Shape.embedding // Shape.heads)
    assert model.engine.cache_bytes == 2 * 256 * n_numbers * bits / 8
    sequence.fork(0)
    assert model.engine.cache_bytes == 2 * 256 * n_numbers * bits / 8


def test_capabilities_say_what_is_cached_how(mixed_file: Path, loaded: Loader) -> None:
    capabilities = loaded(mixed_file, cache_type_k="q8_0").capabilities
    assert (capabilities.cache_type_k, capabilities.cache_type_v) == ("q8_0", "f16")


@pytest.mark.parametrize("flag", ["cache_type_k", "cache_type_v"])
def test_heads_that_are_no_whole_blocks_are_refused_with_the_way_out(tmp_path: Path, loaded: Loader, flag: str) -> None:
    write_model(tmp_path / "m.gguf", Shape(embedding=256, heads=16, kv_heads=16))
    loaded(tmp_path / "m.gguf")
    with pytest.raises(ConfigError, match="multiple of 32 values, and this model's have 16") as caught:
        loaded(tmp_path / "m.gguf", **{flag: "q8_0"})
    assert "f16" in caught.value.hint


def test_q8_0_on_a_real_model(smollm2_path: Path, loaded: Loader) -> None:
    from outrider.gguf import read_split, read_vocabulary
    from outrider.native import NativeTokenizer

    tokenizer = NativeTokenizer(read_vocabulary(read_split(smollm2_path).header))
    tokens = tuple(tokenizer.encode(Path(__file__).read_text(), parse_special=False, add_bos=False)[:300])
    exact = log_probs(loaded(smollm2_path), tokens)
    rounded = log_probs(loaded(smollm2_path, cache_type_k="q8_0", cache_type_v="q8_0"), tokens)
    # Measured over 2,048 tokens: 5.1e-3, and llama.cpp's q8_0 keys differ from its f16 by 4.4e-3.
    assert 0 < mean_kl(exact, rounded) < 1.5e-2


def test_unknown_types_are_refused(mixed_file: Path, loaded: Loader) -> None:
    with pytest.raises(ConfigError, match="-ctv is 'q4_0'"):
        loaded(mixed_file, cache_type_v="q4_0")
