"""Angles of rotary positions: right, the same on every platform, and refused by name where they are not known."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from outrider.errors import ModelFileError, UnsupportedModelError
from outrider.native import _core
from tests.native.conftest import Loader
from tests.native.tiny_models import Shape, write_model

PAIRS = 64


def rotation(position: int, factors: tuple[float, ...] = (), **settings: Any) -> NDArray[np.float32]:
    """[2, pairs]: cosines and sines."""
    hyper = _core.HyperParameters()
    defaults = {"rope_base": 1e6, "rope_scale": 1.0, "rope_dimensions": 2 * PAIRS, "rope_original_context": 4096}
    for name, value in (defaults | settings).items():
        setattr(hyper, name, value)
    return _core.rotation(hyper, factors, position)


@pytest.mark.parametrize("position", [0, 1, 255, 4097, 131_071, (1 << 20) + 1])
def test_angles_are_right_to_the_last_bits(position: int) -> None:
    for base in (10000.0, 500000.0, 1e6):
        angles = position * np.longdouble(base) ** (-np.arange(PAIRS, dtype=np.longdouble) / PAIRS)
        assert np.abs(rotation(position, rope_base=base) - np.stack([np.cos(angles), np.sin(angles)])).max() < 1e-7


def test_factors_divide_and_the_magnitude_multiplies() -> None:
    factors = tuple(np.linspace(1, 8, PAIRS).tolist())
    angles = 1000 * 1e6 ** (-np.arange(PAIRS) / PAIRS) / np.float32(factors)
    expected = 1.25 * np.stack([np.cos(angles), np.sin(angles)])
    assert np.abs(rotation(1000, factors, rope_attention_factor=1.25) - expected).max() < 2e-7


def test_same_bits_on_every_platform() -> None:
    """The sum was the same from gcc and clang, with and without FMA instructions, and on aarch64."""
    digest = hashlib.sha256()
    for base in (10000.0, 500000.0):
        for extrapolation in (0.0, 1.0):
            for position in range(0, 1 << 20, 7919):
                digest.update(rotation(position, rope_base=base, rope_scale=0.25, rope_extrapolation=extrapolation).tobytes())
    assert digest.hexdigest() == "7e9ac4abb44c7b63f4681e70c1ba38fc680b6c218ab2d24df0ffbac69a5bf352"


@pytest.mark.parametrize(
    "settings",
    [
        {"rope_base": 0.0},
        {"rope_base": float("nan")},
        {"rope_base": 1.0, "rope_extrapolation": 1.0},
        {"rope_scale": 0.0},
        {"rope_scale": 1e30},
        {"rope_attention_factor": float("inf")},
        {"rope_original_context": 0},
        {"rope_extrapolation": 1.0, "rope_beta_fast": 0.0},
    ],
    ids=str,
)
def test_settings_without_an_angle_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="unusable rope parameters"):
        rotation(1, **settings)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_factors_that_no_frequency_can_be_divided_by(tmp_path: Path, loaded: Loader, factor: float) -> None:
    factors = np.full(32, factor, dtype=np.float32)
    write_model(tmp_path / "m.gguf", Shape("llama", biases=False, tensors={"rope_freqs.weight": factors}))
    with pytest.raises(ModelFileError, match=r"rope_freqs\.weight'.*not a positive number"):
        loaded(tmp_path / "m.gguf")


LONG, SHORT, FREQS = "rope_factors_long.weight", "rope_factors_short.weight", "rope_freqs.weight"
LONGROPE = {"rope.scaling.type": "longrope"}


@pytest.mark.parametrize(
    ("architecture", "metadata", "names", "says"),
    [
        ("qwen2", LONGROPE, (LONG, SHORT), "'longrope' of the architecture 'qwen2'"),
        ("qwen3", {}, (FREQS,), "rope_freqs.weight .* of 'qwen3'"),
        ("llama", LONGROPE, (), "no factors with the rope scaling 'longrope'"),
        ("llama", LONGROPE, (LONG,), "rope_factors_long.weight with the rope scaling 'longrope'"),
        ("llama", LONGROPE, (LONG, SHORT, FREQS), "rope_freqs.weight"),
        ("llama", {"rope.scaling.type": "yarn"}, (LONG, SHORT), "with the rope scaling 'yarn'"),
        ("llama", {"rope.scaling.type": "yarn", "rope.scaling.yarn_attn_factor": 1.5}, (), "yarn_attn_factor of 1.5"),
    ],
)
def test_what_the_core_does_not_know_is_named(
    tmp_path: Path, loaded: Loader, architecture: str, metadata: dict[str, Any], names: tuple[str, ...], says: str
) -> None:
    tensors = {name: np.ones(32, dtype=np.float32) for name in names}
    write_model(tmp_path / "m.gguf", Shape(architecture, biases=False, metadata=metadata, tensors=tensors))
    with pytest.raises(UnsupportedModelError, match=says) as refusal:
        loaded(tmp_path / "m.gguf")
    assert refusal.value.hint == "use --backend llama"
