"""Repacking is exact: a panel dequantises to what gguf's reference gives, bit for bit, in every format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from outrider.native import NativeModel, _core
from tests.native.conftest import Loader
from tests.native.tiny_models import FLOATS, FORMATS, Shape, odd_floats, write_model

K_QUANTS = {Type.Q4_K, Type.Q5_K, Type.Q6_K}


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_every_row_survives_the_panels(kind: Type, tmp_path: Path, loaded: Loader) -> None:
    # 96 columns are one and a half panels of 64; 301 rows leave the last group of 16 almost empty.
    sizes = {} if kind in K_QUANTS else {"embedding": 96, "feed_forward": 160, "heads": 2, "kv_heads": 1}
    reference = write_model(tmp_path / "m.gguf", Shape(vocab=301, types=(kind,), layers=1, **sizes))
    check_panels(loaded(tmp_path / "m.gguf"), reference)


def check_panels(model: NativeModel, reference: dict[str, NDArray[np.float32]]) -> None:
    for name, expected in reference.items():
        if expected.ndim == 2:
            got = np.stack([model.engine.unpacked_row(name, row) for row in range(len(expected))])
            assert got.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.name)
def test_every_bit_pattern_of_a_float_survives(kind: Type, tmp_path: Path, loaded: Loader) -> None:
    """All there are of 16 bits: subnormals, infinities and NaN with their payloads. 80 columns are one and a quarter panels."""
    sizes = {"embedding": 80, "feed_forward": 208, "heads": 1, "kv_heads": 1, "layers": 1}
    reference = write_model(tmp_path / "m.gguf", Shape(vocab=821, types=(kind,), **sizes), blocks=odd_floats)
    check_panels(loaded(tmp_path / "m.gguf"), reference)


def test_formats_are_what_the_core_says() -> None:
    assert set(_core.supported_types()) == {int(kind) for kind in FORMATS}


def test_panels_cost_at_most_three_percent(mixed_file: Path, loaded: Loader) -> None:
    """Padding of the few last rows aside, which a model of this size feels: the 256-column formats are 0 to 3 % larger."""
    engine = loaded(mixed_file).engine
    assert engine.weight_bytes < mixed_file.stat().st_size * 1.1
