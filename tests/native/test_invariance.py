"""Batch invariance, by comparing bytes: a row's logits don't depend on what else is in the pass, on threads or instruction set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from outrider.model import Segment
from outrider.native import NativeModel, _core
from outrider.native.sequence import NativeSequence
from tests.native.conftest import Loader
from tests.native.tiny_models import FLOATS, Shape, random_blocks, write_model

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


@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.name)
def test_float_models_are_invariant_too(tmp_path: Path, loaded: Loader, kind: Type) -> None:
    """Every size of tile and every instruction set, on rows that end within a panel; threads are the business of the tests above."""
    write_model(tmp_path / "m.gguf", Shape(embedding=80, feed_forward=208, heads=5, kv_heads=1, types=(kind,), vectors=kind))
    scalar = loaded(tmp_path / "m.gguf", isa="scalar", threads=1)
    whole = feed(scalar, scalar.open(), TOKENS[:26], 26)
    for isa in _core.instruction_sets():
        model = loaded(tmp_path / "m.gguf", isa=isa, threads=1)
        sequence = model.open()
        for chunk in (1, 2, 3, 4, 5, 6, 7, 8, 13, 26):
            assert feed(model, sequence, TOKENS[:26], chunk).tobytes() == whole.tobytes(), (isa, chunk)
            sequence.truncate(0)


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.F32], ids=lambda kind: kind.name)
def test_nan_of_one_row_reaches_no_other(tmp_path: Path, loaded: Loader, kind: Type) -> None:
    """Neither in its own pass nor in a later one, although rows of 96 columns leave room for it in their last panel."""
    poison = 7

    def blocks(rng: np.random.Generator, kind: Type, rows: int, columns: int) -> NDArray[np.uint8]:
        data = random_blocks(rng, kind, rows, columns)
        if rows == 300:
            data[poison, :2] = 0xFF, 0x7E  # the scale of the first block, or half of a float
            data[poison, 2:4] = 0xFF, 0x7F
        return data

    write_model(tmp_path / "m.gguf", Shape(embedding=96, feed_forward=160, heads=2, kv_heads=1, types=(kind,), tied=True), blocks=blocks)
    fresh, model = loaded(tmp_path / "m.gguf"), loaded(tmp_path / "m.gguf")
    tokens = tuple(token for token in TOKENS[:30] if token != poison)
    others = np.arange(300) != poison  # the head is tied: this token's logit is NaN everywhere
    expected = feed(fresh, fresh.open(), tokens, 5)[:, others]
    assert np.isfinite(expected).all()
    bad, good = model.open(), model.open()
    evaluation = model.evaluate([Segment(bad, (poison,) * 8), Segment(good, tokens[:3])])
    assert np.isnan(evaluation.rows([0])).all()
    assert evaluation.rows([8, 9, 10])[:, others].tobytes() == expected[:3].tobytes()
    good.commit(range(3))
    assert feed(model, good, tokens[3:], 1)[:, others].tobytes() == expected[3:].tobytes()


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_other_architectures_are_invariant_too(tmp_path: Path, loaded: Loader, architecture: str) -> None:
    write_model(tmp_path / "m.gguf", Shape(architecture=architecture, biases=False, tied=True))
    model = loaded(tmp_path / "m.gguf")
    whole = feed(model, model.open(), TOKENS[:70], 70)
    assert feed(model, model.open(), TOKENS[:70], 9).tobytes() == whole.tobytes()
