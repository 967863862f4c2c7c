"""Sliding windows: a row sees its last positions only, whatever shares the pass; and which files have one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from outrider.gguf import HyperParameters, Split
from outrider.model import Segment
from outrider.native import NativeModel, _core, loading
from tests.native.conftest import Loader
from tests.native.test_forward import reference_logits
from tests.native.test_invariance import feed
from tests.native.tiny_models import Shape, write_model

N_TOKENS = 600
TOKENS = tuple(int(token) for token in np.random.default_rng(4).integers(0, 300, N_TOKENS))

Windowed: TypeAlias = Callable[..., NativeModel]


@pytest.fixture
def windowed(monkeypatch: pytest.MonkeyPatch, loaded: Loader) -> Windowed:
    """Loads a model as if its architecture had a window."""
    plain = loading._core_parameters

    def load(path: Path, window: int, **options: object) -> NativeModel:
        def parameters(split: Split, given: HyperParameters, n_context: int) -> _core.HyperParameters:
            hyper = plain(split, given, n_context)
            hyper.window = window
            return hyper

        monkeypatch.setattr(loading, "_core_parameters", parameters)
        return loaded(path, max_rows=N_TOKENS, **options)

    return load


def whole(model: NativeModel, n: int = N_TOKENS) -> NDArray[np.float32]:
    return model.evaluate([Segment(model.open(), TOKENS[:n])]).rows(range(n))


@pytest.mark.parametrize("window", [1, 5, 40])
def test_logits_are_those_of_a_masked_model(tmp_path: Path, windowed: Windowed, window: int) -> None:
    shape = Shape()
    matrices = write_model(tmp_path / "m.gguf", shape)
    expected = reference_logits(matrices, shape, list(TOKENS[:48]), window)
    got = whole(windowed(tmp_path / "m.gguf", window), 48)
    assert np.sqrt(((got - expected) ** 2).mean()) < 0.05 * np.std(expected)


def test_a_window_over_everything_is_no_window(mixed_file: Path, windowed: Windowed, loaded: Loader) -> None:
    exact = whole(windowed(mixed_file, 0))
    assert whole(windowed(mixed_file, N_TOKENS)).tobytes() == exact.tobytes()
    assert whole(windowed(mixed_file, N_TOKENS - 1)).tobytes() != exact.tobytes()


@pytest.mark.parametrize("cache", ["f16", "q8_0"])
@pytest.mark.parametrize("window", [3, 200, 256, 300])
def test_rows_do_not_depend_on_the_pass(mixed_file: Path, windowed: Windowed, window: int, cache: str) -> None:
    types = {"cache_type_k": cache, "cache_type_v": cache}
    reference = whole(windowed(mixed_file, window, isa="scalar", threads=1, **types))
    assert np.isfinite(reference).all()
    for isa in _core.instruction_sets():
        assert whole(windowed(mixed_file, window, isa=isa, threads=3, **types)).tobytes() == reference.tobytes()
    model = windowed(mixed_file, window, **types)
    sequence = model.open()
    assert feed(model, sequence, TOKENS, 64).tobytes() == reference.tobytes()
    for start in (509, 250):  # across the end of a page
        sequence.truncate(start)
        for n_rows in (1, 2, 9, 20):
            evaluation = model.evaluate([Segment(sequence, TOKENS[start : start + n_rows])])
            assert evaluation.rows(range(n_rows)).tobytes() == reference[start : start + n_rows].tobytes()
            sequence.commit([])
        wrong = (TOKENS[start] + 1) % 300
        tree = model.evaluate([Segment(sequence, (wrong, *TOKENS[start : start + 6]), (-1, -1, 1, 2, 3, 4, 5))])
        assert tree.rows(range(1, 7)).tobytes() == reference[start : start + 6].tobytes()
        sequence.commit([])


@pytest.mark.parametrize("architecture", loading.ARCHITECTURES)
def test_these_architectures_have_no_window_whatever_the_file_says(tmp_path: Path, loaded: Loader, architecture: str) -> None:
    """llama.cpp is the oracle: it reads no window for them."""
    write_model(tmp_path / "plain.gguf", Shape(architecture=architecture, biases=False))
    write_model(tmp_path / "key.gguf", Shape(architecture=architecture, biases=False, metadata={"attention.sliding_window": 4}))
    assert whole(loaded(tmp_path / "key.gguf"), 20).tobytes() == whole(loaded(tmp_path / "plain.gguf"), 20).tobytes()
    pytest.importorskip("llama_cpp")
    from outrider.llama import LlamaOptions, load

    logits = []
    for name in ("plain", "key"):
        model = load(tmp_path / f"{name}.gguf", LlamaOptions(n_context=64, threads=1))
        logits.append(model.evaluate([Segment(model.open(), TOKENS[:20])]).rows(range(20)).copy())
        model.close()
    assert logits[0].tobytes() == logits[1].tobytes()
