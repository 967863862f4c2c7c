"""Batch invariance, by comparing bytes: a row's logits don't depend on what else is in the pass, on threads or instruction set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from outrider.model import Segment
from outrider.native import NativeModel, _core
from outrider.native.sequence import NativeSequence
from tests.native.conftest import Loader
from tests.native.tiny_models import Shape, write_model

N_TOKENS = 300  # beyond one page of 256 positions
TAIL = 40
TOKENS = tuple(int(token) for token in np.random.default_rng(7).integers(0, 300, N_TOKENS))


def feed(model: NativeModel, sequence: NativeSequence, tokens: tuple[int, ...], chunk: int) -> NDArray[np.float32]:
    """Logits of all tokens, evaluated `chunk` at a time."""
    rows = []
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        evaluation = model.evaluate([Segment(sequence, part)])
        rows.append(evaluation.rows(range(len(part))))
        sequence.commit(range(len(part)))
    return np.concatenate(rows)


@pytest.fixture(scope="module", params=["f16/f16", "q8_0/q8_0", "q8_0/f16", "f16/q8_0"])
def cache(request: pytest.FixtureRequest) -> dict[str, str]:
    """Types of keys and values, as options."""
    keys, values = request.param.split("/")
    return {"cache_type_k": keys, "cache_type_v": values}


@pytest.fixture(scope="module")
def reference(mixed_file: Path, cache: dict[str, str]) -> NDArray[np.float32]:
    """Logits of all tokens by the scalar reference, one pass."""
    from outrider.native import NativeOptions, load

    model = load(mixed_file, NativeOptions(n_context=1024, threads=1, isa="scalar", **cache))
    logits = feed(model, model.open(), TOKENS, N_TOKENS)
    model.close()
    assert np.isfinite(logits).all()
    assert np.ptp(logits[-1]) > 0
    return logits


@pytest.mark.parametrize("isa", _core.instruction_sets())
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_instruction_sets_and_threads_agree(
    mixed_file: Path, cache: dict[str, str], reference: NDArray[np.float32], loaded: Loader, isa: str, threads: int
) -> None:
    model = loaded(mixed_file, isa=isa, threads=threads, **cache)
    assert feed(model, model.open(), TOKENS, N_TOKENS).tobytes() == reference.tobytes()


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_prompt_chunks_agree(mixed_file: Path, cache: dict[str, str], reference: NDArray[np.float32], loaded: Loader, chunk: int) -> None:
    model = loaded(mixed_file, **cache)
    assert feed(model, model.open(), TOKENS, chunk).tobytes() == reference.tobytes()


def test_every_batch_after_rollback_agrees(mixed_file: Path, cache: dict[str, str], reference: NDArray[np.float32], loaded: Loader) -> None:
    model = loaded(mixed_file, **cache)
    sequence = model.open()
    feed(model, sequence, TOKENS, 64)
    start = N_TOKENS - TAIL
    for n_rows in range(1, 34):
        sequence.truncate(start)
        evaluation = model.evaluate([Segment(sequence, TOKENS[start : start + n_rows])])
        assert evaluation.rows(range(n_rows)).tobytes() == reference[start : start + n_rows].tobytes(), n_rows
        sequence.commit(range(0, n_rows, n_rows))


@pytest.mark.parametrize("start", [40, 250])  # inside a page, and across the end of one
def test_tree_paths_equal_sequential_decoding(
    mixed_file: Path, cache: dict[str, str], reference: NDArray[np.float32], loaded: Loader, start: int
) -> None:
    model = loaded(mixed_file, **cache)
    sequence = model.open()
    feed(model, sequence, TOKENS[:start], 64)
    tokens, parents, path, last = [], [], [], -1
    for depth in range(8):  # the real token between two siblings that are wrong
        tokens += [(TOKENS[start + depth] + 1) % 300, TOKENS[start + depth], (TOKENS[start + depth] + 2) % 300]
        parents += [last] * 3
        path.append(last := 3 * depth + 1)
    evaluation = model.evaluate([Segment(sequence, tuple(tokens), tuple(parents))])
    assert evaluation.rows(path).tobytes() == reference[start : start + 8].tobytes()
    sequence.commit(path)
    assert sequence.length == start + 8
    rest = feed(model, sequence, TOKENS[start + 8 : start + 20], 5)
    assert rest.tobytes() == reference[start + 8 : start + 20].tobytes()


def test_forks_share_a_prefix_and_nothing_else(
    mixed_file: Path, cache: dict[str, str], reference: NDArray[np.float32], loaded: Loader
) -> None:
    model = loaded(mixed_file, **cache)
    first = model.open()
    feed(model, first, TOKENS[:100], 64)
    second = first.fork(60)
    feed(model, second, tuple((token + 5) % 300 for token in TOKENS[60:90]), 30)
    assert feed(model, first, TOKENS[100:120], 7).tobytes() == reference[100:120].tobytes()
    second.truncate(60)
    assert feed(model, second, TOKENS[60:80], 20).tobytes() == reference[60:80].tobytes()


def test_sequences_in_one_pass_do_not_touch(
    mixed_file: Path, cache: dict[str, str], reference: NDArray[np.float32], loaded: Loader
) -> None:
    model = loaded(mixed_file, **cache)
    first, second = model.open(), model.open()
    feed(model, first, TOKENS[:50], 50)
    feed(model, second, TOKENS[:20], 20)
    evaluation = model.evaluate([Segment(first, TOKENS[50:53]), Segment(second, TOKENS[20:22])])
    assert evaluation.rows([0, 1, 2]).tobytes() == reference[50:53].tobytes()
    assert evaluation.rows([3, 4]).tobytes() == reference[20:22].tobytes()


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_other_architectures_are_invariant_too(tmp_path: Path, loaded: Loader, architecture: str) -> None:
    write_model(tmp_path / "m.gguf", Shape(architecture=architecture, biases=False, tied=True))
    model = loaded(tmp_path / "m.gguf")
    whole = feed(model, model.open(), TOKENS[:70], 70)
    assert feed(model, model.open(), TOKENS[:70], 9).tobytes() == whole.tobytes()
