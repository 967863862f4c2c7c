"""Reading logits, on memory that stands in for llama.cpp's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from outrider.errors import EngineError
from outrider.llama.evaluation import LlamaEvaluation


class Memory:
    """Logits of a pass in which only some rows have any."""

    def __init__(self, logits: NDArray[np.float32], outputs: list[int] | None = None) -> None:
        self.logits = np.ascontiguousarray(logits, dtype=np.float32)
        self.current = True
        indices = np.arange(len(logits)) if outputs is None else np.array(outputs)
        self.evaluation = LlamaEvaluation(self.logits.ctypes.data, indices, self.logits.shape[1], lambda: self.current)


def random_logits(n_rows: int, n_vocab: int = 50) -> NDArray[np.float32]:
    return (np.random.default_rng(1).standard_normal((n_rows, n_vocab)) * 5).astype(np.float32)


def test_neighbours_are_a_view() -> None:
    memory = Memory(random_logits(4))
    for nodes in ([0], [2], [1, 2, 3], range(4)):
        rows = memory.evaluation.rows(nodes)
        assert np.shares_memory(rows, memory.logits)
        assert np.array_equal(rows, memory.logits[list(nodes)])
        assert not rows.flags.writeable
    memory.logits[2, 7] = 99.0
    assert memory.evaluation.rows([2])[0, 7] == 99.0


def test_other_rows_are_a_copy_in_the_order_asked() -> None:
    memory = Memory(random_logits(4))
    for nodes in ([3, 1], [0, 2], [1, 1]):
        rows = memory.evaluation.rows(nodes)
        assert np.array_equal(rows, memory.logits[nodes])
        assert not rows.flags.writeable


def test_no_rows() -> None:
    evaluation = Memory(random_logits(2)).evaluation
    assert evaluation.rows([]).shape == (0, 50)
    assert evaluation.argmax([]).shape == (0,)
    assert evaluation.top_k([], 3)[0].shape == (0, 3)
    assert evaluation.logsumexp([]).shape == (0,)


def test_rows_are_numbered_over_the_pass_not_over_the_outputs() -> None:
    memory = Memory(random_logits(2), outputs=[-1, -1, 0, -1, 1])
    assert np.array_equal(memory.evaluation.rows([2, 4]), memory.logits)
    assert memory.evaluation.argmax([4])[0] == memory.logits[1].argmax()
    for node in (0, 3, 5, -1):
        for ask in (memory.evaluation.rows, memory.evaluation.argmax, memory.evaluation.logsumexp):
            with pytest.raises(EngineError, match=f"row {node} was not announced"):
                ask([2, node])


def test_a_pass_without_outputs() -> None:
    evaluation = LlamaEvaluation(None, np.array([-1, -1]), 50, lambda: True)
    assert evaluation.rows([]).shape == (0, 50)
    with pytest.raises(EngineError, match="row 1 was not announced"):
        evaluation.argmax([1])


def test_a_stale_evaluation_raises() -> None:
    memory = Memory(random_logits(2))
    memory.current = False
    evaluation = memory.evaluation
    for ask in (evaluation.rows, evaluation.argmax, evaluation.logsumexp, lambda nodes: evaluation.top_k(nodes, 2)):
        with pytest.raises(EngineError, match="stale"):
            ask([0])


def test_argmax_takes_the_lowest_of_equals() -> None:
    logits = np.zeros((3, 40), dtype=np.float32)
    logits[0, [7, 30]] = 2.0
    logits[1] = -np.inf
    logits[1, [39, 12]] = 3.5
    logits[2, [5, 6]] = np.inf
    assert Memory(logits).evaluation.argmax([0, 1, 2]).tolist() == [7, 12, 5]


@pytest.mark.parametrize("place", [0, 17, 49])
def test_not_a_number_is_an_error_everywhere(place: int) -> None:
    logits = random_logits(2)
    logits[1, place] = np.nan
    evaluation = Memory(logits).evaluation
    evaluation.argmax([0])
    best, all_tokens = (lambda nodes, k=k: evaluation.top_k(nodes, k) for k in (1, 50))
    for ask in (evaluation.argmax, evaluation.logsumexp, best, all_tokens):
        with pytest.raises(EngineError, match="row 1 are not numbers"):
            ask([0, 1])


@given(st.lists(st.sampled_from([-np.inf, -1.5, 0.0, 0.25, 3.0, 3.5]), min_size=1, max_size=30), st.data())
def test_top_k_is_the_start_of_a_stable_sort(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    expected = sorted(range(len(values)), key=lambda token: (-values[token], token))[:k]
    ids, logits = Memory(np.array([values], dtype=np.float32)).evaluation.top_k([0], k)
    assert ids.dtype == np.int64
    assert ids[0].tolist() == expected
    assert logits[0].tolist() == [values[token] for token in expected]


@pytest.mark.parametrize("k", [1, 2, 10, 290, 297, 593, 594, 151_999, 152_000])
@pytest.mark.parametrize("spread", [0.01, 4.0])  # the small one rounds to many equals
def test_top_k_of_a_large_row(k: int, spread: float) -> None:
    row = np.round(np.random.default_rng(4).standard_normal(152_000) * spread, 2).astype(np.float32)
    expected = np.lexsort((np.arange(len(row)), -row))[:k]
    ids, logits = Memory(row[None]).evaluation.top_k([0], k)
    assert np.array_equal(ids[0], expected)
    assert np.array_equal(logits[0], row[expected])


@pytest.mark.parametrize("k", [0, -1, 51])
def test_top_k_of_an_impossible_size(k: int) -> None:
    with pytest.raises(EngineError, match="were asked for"):
        Memory(random_logits(1)).evaluation.top_k([0], k)


@given(st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=200))
def test_logsumexp_is_exact_enough(values: list[float]) -> None:
    exact = np.array(values, dtype=np.float32).astype(np.longdouble)
    expected = exact.max() + np.log(np.exp(exact - exact.max()).sum())
    found = Memory(np.array([values], dtype=np.float32)).evaluation.logsumexp([0])
    assert found.dtype == np.float64
    assert abs(float(found[0]) - float(expected)) < 1e-6


def test_logsumexp_of_a_large_row_and_of_infinities() -> None:
    row = (np.random.default_rng(3).standard_normal(152_000) * 4).astype(np.float32)
    exact = np.log(np.exp(row.astype(np.longdouble)).sum())
    masked = np.full(152_000, -np.inf, dtype=np.float32)
    hot = masked.copy()
    hot[5] = 2.0
    found = Memory(np.stack([row, masked, hot])).evaluation.logsumexp([0, 1, 2])
    assert abs(found[0] - float(exact)) < 1e-6
    assert found[1] == -np.inf
    assert found[2] == 2.0
