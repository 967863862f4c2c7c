"""The public fakes raise on every misuse of the ports."""

from __future__ import annotations

from threading import Event

import numpy as np
import pytest

from outrider.errors import CacheFullError, CancelledError, EngineError, RequestError
from outrider.model import LanguageModel, Segment, Sequence
from outrider.testing import ByteTokenizer, TableModel, random_table


@pytest.fixture
def model() -> TableModel:
    return TableModel(random_table(5), 5, n_context=10, max_rows=6, max_sequences=3)


def test_it_is_a_language_model(model: TableModel) -> None:
    assert isinstance(model, LanguageModel)
    assert isinstance(model.open(), Sequence)


def test_rows_depend_on_the_path_alone(model: TableModel) -> None:
    chain, tree = model.open(), model.open()
    rows = model.evaluate([Segment(chain, (1, 2, 3))]).rows([0, 1, 2]).copy()
    evaluation = model.evaluate([Segment(tree, (1, 4, 2, 3), (-1, 0, 0, 2))])
    assert np.array_equal(evaluation.rows([0, 2, 3]), rows)
    tree.commit([0, 2, 3])
    assert tree.length == 3


def test_committing_and_truncating_equals_a_fresh_run(model: TableModel) -> None:
    sequence = model.open()
    model.evaluate([Segment(sequence, (1, 2, 3))])
    sequence.commit([0, 1])
    sequence.truncate(1)
    again = model.evaluate([Segment(sequence, (4,))]).rows([0])
    fresh = model.open()
    assert np.array_equal(model.evaluate([Segment(fresh, (1, 4))]).rows([1]), again)


def test_a_fork_shares_the_prefix_and_nothing_else(model: TableModel) -> None:
    sequence = model.open()
    model.evaluate([Segment(sequence, (1, 2, 3))])
    sequence.commit([0, 1, 2])
    fork = sequence.fork(2)
    model.evaluate([Segment(fork, (4,))])
    fork.commit([0])
    assert (fork.tokens, sequence.tokens) == ([1, 2, 4], [1, 2, 3])


def test_argmax_top_k_and_logsumexp_agree_with_the_rows() -> None:
    model = TableModel(lambda history: np.array([1, 3, 3, -np.inf], np.float32), 4)
    evaluation = model.evaluate([Segment(model.open(), (0,))])
    assert evaluation.argmax([0]).tolist() == [1]
    ids, values = evaluation.top_k([0], 3)
    assert ids.tolist() == [[1, 2, 0]]
    assert values.tolist() == [[3, 3, 1]]
    assert evaluation.logsumexp([0])[0] == pytest.approx(np.log(np.exp(1) + 2 * np.exp(3)))


def test_a_failing_or_cancelled_pass_changes_nothing(model: TableModel) -> None:
    sequence = model.open()
    model.failures[0] = EngineError("broken")
    with pytest.raises(EngineError, match="broken"):
        model.evaluate([Segment(sequence, (1, 2))])
    cancel = Event()
    cancel.set()
    with pytest.raises(CancelledError):
        model.evaluate([Segment(sequence, (1, 2))], cancel)
    assert sequence.length == 0
    model.evaluate([Segment(sequence, (1, 2))])
    sequence.commit([0])
    assert sequence.tokens == [1]


class TestMisuse:
    """Each wrong call is an EngineError that says what is wrong."""

    @pytest.mark.parametrize(
        ("segment", "message"),
        [
            (((), ()), "no rows|at least one row"),
            (((5,), ()), "outside the vocabulary"),
            (((-1,), ()), "outside the vocabulary"),
            (((1, 2), (-1,)), "as many parents"),
            (((1, 2), (-1, 1)), "before their children"),
            (((1, 2), (-2, 0)), "before their children"),
            (((1,) * 7, ()), "fit one pass"),
        ],
    )
    def test_segments(self, model: TableModel, segment: tuple[tuple[int, ...], tuple[int, ...]], message: str) -> None:
        with pytest.raises(EngineError, match=message):
            model.evaluate([Segment(model.open(), *segment)])

    def test_a_pass_without_segments(self, model: TableModel) -> None:
        with pytest.raises(EngineError, match="at least one row"):
            model.evaluate([])

    def test_a_sequence_twice(self, model: TableModel) -> None:
        sequence = model.open()
        with pytest.raises(EngineError, match="twice"):
            model.evaluate([Segment(sequence, (1,)), Segment(sequence, (2,))])

    def test_rows_that_were_not_committed(self, model: TableModel) -> None:
        sequence = model.open()
        model.evaluate([Segment(sequence, (1,))])
        for wrong in (
            lambda: model.evaluate([Segment(sequence, (2,))]),
            lambda: sequence.truncate(0),
            lambda: sequence.fork(0),
        ):
            with pytest.raises(EngineError, match="committed|commit"):
                wrong()

    @pytest.mark.parametrize("nodes", [[1], [0, 2], [2, 1], [0, 3], [0, 0], [-1]])
    def test_committing_what_is_not_a_path(self, model: TableModel, nodes: list[int]) -> None:
        sequence = model.open()
        model.evaluate([Segment(sequence, (1, 2, 3))])
        with pytest.raises(EngineError, match="not a path"):
            sequence.commit(nodes)

    def test_committing_twice(self, model: TableModel) -> None:
        sequence = model.open()
        model.evaluate([Segment(sequence, (1,))])
        sequence.commit([0])
        with pytest.raises(EngineError, match="no provisional rows"):
            sequence.commit([0])

    def test_stale_and_unannounced_rows(self, model: TableModel) -> None:
        sequence = model.open()
        evaluation = model.evaluate([Segment(sequence, (1, 2, 3), n_outputs=1)])
        for row in (0, 1, 3, -1):
            with pytest.raises(EngineError, match="not announced"):
                evaluation.rows([row])
        sequence.commit([0, 1, 2])
        model.evaluate([Segment(sequence, (1,))])
        with pytest.raises(EngineError, match="stale"):
            evaluation.rows([2])

    def test_closed_and_foreign_things(self, model: TableModel) -> None:
        sequence = model.open()
        sequence.close()
        for wrong in (sequence.close, lambda: sequence.length, lambda: model.evaluate([Segment(sequence, (1,))])):
            with pytest.raises(EngineError, match="closed"):
                wrong()
        other = TableModel(random_table(5), 5).open()
        with pytest.raises(EngineError, match="another model"):
            model.evaluate([Segment(other, (1,))])
        model.close()
        with pytest.raises(EngineError, match="closed"):
            model.open()

    def test_too_many_sequences(self, model: TableModel) -> None:
        for _ in range(3):
            model.open()
        with pytest.raises(EngineError, match="in use"):
            model.open()

    def test_limits_of_context_and_cache(self, model: TableModel) -> None:
        sequence = model.open()
        model.evaluate([Segment(sequence, (1,) * 6)])
        sequence.commit(range(6))
        assert sequence.reserve(4)
        assert not sequence.reserve(5)
        with pytest.raises(CacheFullError, match="context"):
            model.evaluate([Segment(sequence, (1,) * 5)])
        model.n_cells = 8
        with pytest.raises(CacheFullError, match="free cells"):
            model.evaluate([Segment(sequence, (1,) * 3)])

    def test_models_without_trees_or_rollback(self) -> None:
        model = TableModel(random_table(5), 5, tree=False, rollback="none")
        sequence = model.open()
        with pytest.raises(EngineError, match="chains only"):
            model.evaluate([Segment(sequence, (1, 2), (-1, -1))])
        model.evaluate([Segment(sequence, (1, 2), (-1, 0))])
        with pytest.raises(EngineError, match="cannot drop"):
            sequence.commit([0])
        sequence.commit([0, 1])
        with pytest.raises(EngineError, match="cannot drop"):
            sequence.truncate(1)

    def test_logits_that_are_not_numbers(self) -> None:
        model = TableModel(lambda history: np.full(4, np.nan, np.float32), 4)
        with pytest.raises(EngineError, match="not numbers"):
            model.evaluate([Segment(model.open(), (0,))]).argmax([0])

    def test_rows_cannot_be_written(self, model: TableModel) -> None:
        rows = model.evaluate([Segment(model.open(), (0,))]).rows([0])
        with pytest.raises(ValueError, match="read-only"):
            rows[0, 0] = 1


class TestByteTokenizer:
    """Bytes and special tokens."""

    def test_round_trip(self) -> None:
        tokenizer = ByteTokenizer()
        text = "aé€😀\n"
        tokens = tokenizer.encode(text, parse_special=True, add_bos=True)
        assert b"".join(map(tokenizer.piece, tokens)).decode() == text

    def test_special_tokens_only_where_they_are_parsed(self) -> None:
        tokenizer = ByteTokenizer()
        assert tokenizer.encode("a<|end|>", parse_special=True, add_bos=False) == [97, 256]
        assert len(tokenizer.encode("a<|end|>", parse_special=False, add_bos=False)) == 8
        assert tokenizer.end_tokens == {256}
        assert tokenizer.piece(256) == b""

    def test_bad_input(self) -> None:
        tokenizer = ByteTokenizer()
        with pytest.raises(RequestError, match="surrogate"):
            tokenizer.encode("\ud800", parse_special=False, add_bos=False)
        with pytest.raises(EngineError, match="outside"):
            tokenizer.piece(257)
