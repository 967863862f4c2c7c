"""The ports over llama.cpp, on a model of random weights."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.errors import CacheFullError, EngineError
from outrider.llama.library import library
from outrider.model import LanguageModel, Segment, Sequence
from tests.llama.conftest import Make
from tests.llama.passes import CLOSE, WORDS, feed, fresh


def test_it_is_what_the_ports_say(make: Make) -> None:
    model = make()
    assert isinstance(model, LanguageModel)
    assert isinstance(model.open(), Sequence)
    capabilities = model.capabilities
    assert (capabilities.tree, capabilities.deferred_head, capabilities.bit_exact) == (False, False, False)
    assert (capabilities.rollback, capabilities.backend, capabilities.device) == ("truncate", "llama", "cpu")
    assert (capabilities.n_vocab, capabilities.n_context, capabilities.max_rows, capabilities.max_sequences) == (260, 256, 64, 4)


def test_chunks_equal_one_pass(make: Make) -> None:
    model = make()
    whole = fresh(model, WORDS[:60])
    for width in (1, 7, 32):
        sequence = model.open()
        parts = [feed(model, sequence, WORDS[start : min(start + width, 60)]) for start in range(0, 60, width)]
        assert np.allclose(np.concatenate(parts), whole, atol=CLOSE)
        assert sequence.length == 60
        sequence.close()


def test_rolling_back_and_evaluating_again_equals_a_fresh_run(make: Make) -> None:
    model = make()
    sequence = model.open()
    feed(model, sequence, WORDS[:40])
    sequence.truncate(25)
    assert sequence.length == 25
    again = feed(model, sequence, WORDS[50:70])
    assert np.allclose(again, fresh(model, WORDS[:25] + WORDS[50:70])[25:], atol=CLOSE)


def test_committing_a_part_drops_the_rest(make: Make) -> None:
    model = make()
    sequence = model.open()
    feed(model, sequence, WORDS[:10])
    for kept in (0, 1, 3, 5):
        before = sequence.length
        model.evaluate([Segment(sequence, WORDS[20:25])])
        assert sequence.length == before
        sequence.commit(range(kept))
        assert sequence.length == before + kept
    expected = WORDS[:10] + WORDS[20:21] + WORDS[20:23] + WORDS[20:25]
    assert np.allclose(feed(model, sequence, (7,)), fresh(model, (*expected, 7))[-1:], atol=CLOSE)


def test_several_sequences_in_a_pass_equal_separate_runs(make: Make) -> None:
    model = make()
    first, second, third = model.open(), model.open(), model.open()
    feed(model, second, WORDS[30:50])
    evaluation = model.evaluate([Segment(first, WORDS[:5]), Segment(second, WORDS[5:8]), Segment(third, WORDS[8:20], n_outputs=2)])
    nodes = [*range(8), 18, 19]
    logits = evaluation.rows(nodes).copy()
    with pytest.raises(EngineError, match="row 17 was not announced"):
        evaluation.rows([17])
    for sequence, kept in ((first, 5), (second, 1), (third, 12)):
        sequence.commit(range(kept))
    assert [sequence.length for sequence in (first, second, third)] == [5, 21, 12]
    assert np.allclose(logits[:5], fresh(model, WORDS[:5]), atol=CLOSE)
    assert np.allclose(logits[5:8], fresh(model, WORDS[30:50] + WORDS[5:8])[-3:], atol=CLOSE)
    assert np.allclose(logits[8:], fresh(model, WORDS[8:20])[-2:], atol=CLOSE)
    after = model.evaluate([Segment(third, (1,)), Segment(second, (2,))]).rows([1]).copy()
    third.commit([0])
    assert np.allclose(after, fresh(model, (*WORDS[30:50], WORDS[5], 2))[-1:], atol=CLOSE)


def test_a_fork_shares_its_start_and_goes_its_own_way(make: Make) -> None:
    model = make()
    trunk = model.open()
    feed(model, trunk, WORDS[:30])
    branch = trunk.fork(20)
    assert (trunk.length, branch.length) == (30, 20)
    trunk.truncate(5)
    logits = feed(model, branch, WORDS[60:64])
    assert np.allclose(logits, fresh(model, WORDS[:20] + WORDS[60:64])[-4:], atol=CLOSE)
    trunk.close()
    assert np.allclose(feed(model, branch, (9,)), fresh(model, (*WORDS[:20], *WORDS[60:64], 9))[-1:], atol=CLOSE)
    assert branch.fork(0).length == 0


def test_outputs_are_counted_from_the_end(make: Make) -> None:
    model = make()
    sequence = model.open()
    nothing = model.evaluate([Segment(sequence, WORDS[:6], n_outputs=0)])
    assert nothing.rows([]).shape == (0, 260)
    with pytest.raises(EngineError, match="not announced"):
        nothing.argmax([5])
    sequence.commit(range(6))
    last = model.evaluate([Segment(sequence, WORDS[6:9], n_outputs=1)]).rows([2]).copy()
    assert np.allclose(last, fresh(model, WORDS[:9])[-1:], atol=CLOSE)


def test_logits_are_llama_cpp_s_own_memory(make: Make) -> None:
    model = make()
    evaluation = model.evaluate([Segment(model.open(), WORDS[:3])])
    native = library().logits_address(model._native.context, 1)
    assert evaluation.rows([1]).ctypes.data == native
    assert np.shares_memory(evaluation.rows([0, 1, 2]), evaluation.rows([1]))


def test_the_next_pass_makes_an_evaluation_stale_even_if_it_fails(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    sequence, other = model.open(), model.open()
    old = model.evaluate([Segment(sequence, WORDS[:3])])
    new = model.evaluate([Segment(other, WORDS[:3])])
    with pytest.raises(EngineError, match="stale"):
        old.rows([0])
    new.rows([0])
    sequence.commit(())
    monkeypatch.setattr(library().api, "llama_decode", lambda context, batch: -3)
    with pytest.raises(EngineError, match="code -3"):
        model.evaluate([Segment(sequence, (1,))])
    with pytest.raises(EngineError, match="stale"):
        new.rows([0])


# ---- room --------------------------------------------------------------------------------------------------------------


def test_reserve_and_a_full_context(make: Make) -> None:
    model = make(n_context=100, n_sequences=2)
    sequence = model.open()
    feed(model, sequence, WORDS[:60], outputs=0)
    assert sequence.reserve(40)
    assert not sequence.reserve(41)
    assert sequence.reserve(0)
    model.evaluate([Segment(sequence, WORDS[:30], n_outputs=0)])
    assert sequence.reserve(10)
    assert not sequence.reserve(11)
    sequence.commit(range(30))
    with pytest.raises(CacheFullError, match="context of 100"):
        model.evaluate([Segment(sequence, WORDS[:11])])
    assert sequence.length == 90
    assert len(feed(model, sequence, WORDS[:10])) == 10


def test_a_pool_that_is_too_small_for_all(make: Make) -> None:
    model = make(n_context=256, n_cells=256, n_sequences=3)
    first, second = model.open(), model.open()
    for _ in range(3):
        feed(model, first, WORDS[:64], outputs=0)
    assert second.reserve(64)
    assert not second.reserve(65)
    feed(model, second, WORDS[:60], outputs=0)
    with pytest.raises(CacheFullError, match="4 free"):
        model.evaluate([Segment(second, WORDS[:5])])
    assert (first.length, second.length) == (192, 60)
    fork = first.fork(192)  # shares every cell
    feed(model, fork, WORDS[:4])
    assert not second.reserve(1)
    first.truncate(100)  # the fork still holds them
    assert not second.reserve(1)
    fork.close()
    assert second.reserve(96)
    feed(model, second, WORDS[:30])


def test_what_the_ledger_says_is_free_llama_cpp_finds(make: Make) -> None:
    model = make(n_context=256, n_cells=256, n_sequences=4)
    random = np.random.default_rng(2)
    lines = [model.open() for _ in range(3)]
    for _ in range(150):
        line = lines[int(random.integers(3))]
        action = int(random.integers(4))
        if action == 0 and line.length:
            line.truncate(int(random.integers(line.length)))
        elif action == 1:
            lines[lines.index(line)] = fork = line.fork(int(random.integers(line.length + 1)))
            line.close()
            assert fork.length >= 0
        else:
            n = int(random.integers(1, 60))
            if line.reserve(n):  # then llama.cpp must not refuse
                feed(model, line, WORDS[:n], outputs=0)


def test_sequences_run_out_and_come_back(make: Make) -> None:
    model = make(n_sequences=2)
    first = model.open()
    second = first.fork(0)
    with pytest.raises(EngineError, match="all 2 sequences"):
        model.open()
    with pytest.raises(EngineError, match="all 2 sequences"):
        first.fork(0)
    feed(model, second, WORDS[:9])
    second.close()
    third = model.open()
    assert third.length == 0
    assert np.allclose(feed(model, third, WORDS[:4]), feed(model, first, WORDS[:4]), atol=CLOSE)
