"""The forward pass against llama.cpp on the same file: unquantised matrices, and every way of stretching rotary positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from outrider.model import Segment
from tests.native.conftest import Loader
from tests.native.tiny_models import FLOATS, Shape, write_model

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

CLOSE = 1e-3
"""Of the spread of the logits, root mean square. Keys and values are f16 in both; a wrong angle or magnitude makes 0.4 and more."""

CLOSE_IN_16_BITS = {Type.F32: CLOSE, Type.F16: 2e-3, Type.BF16: 1e-2}
"""llama.cpp rounds activations to the type of the weights, the core does not."""

ORIGINAL = 64
TOKENS = [int(token) for token in np.random.default_rng(3).integers(0, 300, 4 * ORIGINAL)]
PAIRS = 32
SPREAD = np.random.default_rng(1).uniform(1, 8, PAIRS).astype(np.float32)
NARROW = np.random.default_rng(2).uniform(1, 2, PAIRS).astype(np.float32)


def oracle(path: Path, n_context: int = 512, **options: Any) -> NDArray[np.float32]:
    """llama.cpp's logits of all tokens."""
    model = llama_cpp.Llama(
        str(path), n_ctx=n_context, n_batch=512, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False, **options
    )
    model.eval(TOKENS)
    logits = np.array(model.scores[: len(TOKENS)])
    model.close()
    return logits


def distance(got: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    return float(np.sqrt(((got - expected) ** 2).mean()) / np.std(expected))


def native(loaded: Loader, path: Path, n_context: int = 512) -> NDArray[np.float32]:
    model = loaded(path, n_context=n_context)
    return model.evaluate([Segment(model.open(), tuple(TOKENS))]).rows(range(len(TOKENS)))


def check(loaded: Loader, path: Path, n_context: int = 512, **options: Any) -> None:
    """Close everywhere, and in the last part, beyond the original context, too."""
    expected, got = oracle(path, n_context, **options), native(loaded, path, n_context)
    assert distance(got, expected) < CLOSE
    assert distance(got[-ORIGINAL:], expected[-ORIGINAL:]) < CLOSE


def shape(architecture: str = "llama", **options: Any) -> Shape:
    return Shape(architecture, layers=1, heads=4, types=(Type.F32,), biases=architecture == "qwen2", **options)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.name)
def test_unquantised_models(tmp_path: Path, loaded: Loader, architecture: str, kind: Type) -> None:
    sizes = {"embedding": 160, "feed_forward": 352, "heads": 5, "kv_heads": 1, "layers": 1}
    write_model(tmp_path / "m.gguf", Shape(architecture, types=(kind,), biases=architecture == "qwen2", **sizes))
    assert distance(native(loaded, tmp_path / "m.gguf"), oracle(tmp_path / "m.gguf")) < CLOSE_IN_16_BITS[kind]


def scaled(kind: str, factor: float | None = 4.0, **more: float) -> dict[str, str | int | float]:
    keys: dict[str, str | int | float] = {"rope.scaling.type": kind, "rope.scaling.original_context_length": ORIGINAL}
    if factor is not None:
        keys["rope.scaling.factor"] = factor
    return keys | {f"rope.scaling.{name}": value for name, value in more.items()}


SCALINGS = {
    "none": scaled("none"),
    "linear": scaled("linear"),
    "linear with a magnitude": scaled("linear", attn_factor=1.2),
    "yarn": scaled("yarn"),
    "yarn with a magnitude": scaled("yarn", attn_factor=0.9),
    "yarn that shrinks": scaled("yarn", 0.5),
}


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_scaled_positions(tmp_path: Path, loaded: Loader, architecture: str, scaling: str) -> None:
    write_model(tmp_path / "m.gguf", shape(architecture, metadata=SCALINGS[scaling]))
    check(loaded, tmp_path / "m.gguf")


def test_scaling_is_no_detail(tmp_path: Path, loaded: Loader) -> None:
    """What the comparisons above could miss: without yarn the same weights give other logits."""
    write_model(tmp_path / "m.gguf", shape())
    write_model(tmp_path / "yarn.gguf", shape(metadata=SCALINGS["yarn"]))
    assert distance(native(loaded, tmp_path / "m.gguf"), native(loaded, tmp_path / "yarn.gguf")) > 100 * CLOSE


@pytest.mark.parametrize(
    "options",
    [{"yarn_beta_fast": 8.0, "yarn_beta_slow": 2.0}, {"yarn_ext_factor": 0.5}],
    ids=["betas", "extrapolation"],
)
def test_keys_that_llama_cpp_takes_as_options(tmp_path: Path, loaded: Loader, options: dict[str, float]) -> None:
    """It reads these keys for few architectures, but computes with the same numbers when they are options of a context."""
    original = {"rope.scaling.original_context_length": 8 * ORIGINAL}
    write_model(tmp_path / "m.gguf", shape(metadata=scaled("yarn", **options) | original))
    check(loaded, tmp_path / "m.gguf", **options)
    assert distance(native(loaded, tmp_path / "m.gguf"), oracle(tmp_path / "m.gguf")) > 100 * CLOSE


def test_log_multiplier_takes_magnitude_back(tmp_path: Path, loaded: Loader) -> None:
    write_model(tmp_path / "ours.gguf", shape(metadata=scaled("yarn", yarn_log_multiplier=0.7)))
    write_model(tmp_path / "same.gguf", shape(metadata=scaled("yarn", attn_factor=float(1 / (0.1 * 0.7 * np.log(4.0) + 1)))))
    assert distance(native(loaded, tmp_path / "ours.gguf"), oracle(tmp_path / "same.gguf")) < CLOSE


@pytest.mark.parametrize("metadata", [{}, SCALINGS["yarn"]], ids=["llama3", "llama3 and yarn"])
def test_factors_of_frequencies(tmp_path: Path, loaded: Loader, metadata: dict[str, str | int | float]) -> None:
    write_model(tmp_path / "m.gguf", shape(tensors={"rope_freqs.weight": SPREAD}, metadata=metadata))
    check(loaded, tmp_path / "m.gguf")


@pytest.mark.parametrize("n_context", [512, 1024], ids=["short", "long"])
@pytest.mark.parametrize("factor", [None, 2.0])
def test_longrope_chooses_by_context(tmp_path: Path, loaded: Loader, n_context: int, factor: float | None) -> None:
    metadata = scaled("longrope", factor, attn_factor=1.19) | {"rope.scaling.original_context_length": 512}
    tensors = {"rope_factors_long.weight": SPREAD, "rope_factors_short.weight": NARROW}
    write_model(tmp_path / "m.gguf", shape(metadata=metadata, tensors=tensors))
    check(loaded, tmp_path / "m.gguf", n_context)
