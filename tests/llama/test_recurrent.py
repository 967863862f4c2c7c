"""A model that cannot be rewound (mamba), and one with a sliding window (gemma2)."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.errors import EngineError
from outrider.llama.library import library
from outrider.model import Segment
from tests.llama.conftest import Make
from tests.llama.passes import CLOSE, WORDS, SetOnQuestion, feed, fresh


def test_rollback_is_probed(make: Make) -> None:
    assert make("mamba").capabilities.rollback == "none"
    assert make("gemma2").capabilities.rollback == "truncate"


def test_a_probe_that_says_no_is_believed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    real = library().api.llama_memory_seq_rm
    monkeypatch.setattr(library().api, "llama_memory_seq_rm", lambda memory, line, *ends: ends[0] <= 0 and real(memory, line, *ends))
    assert make().capabilities.rollback == "none"


def test_a_state_moves_forward_only(make: Make) -> None:
    model = make("mamba")
    sequence = model.open()
    whole = fresh(model, WORDS[:20])
    assert np.allclose(np.concatenate([feed(model, sequence, WORDS[:13]), feed(model, sequence, WORDS[13:20])]), whole, atol=CLOSE)
    model.evaluate([Segment(sequence, (1, 2))])
    with pytest.raises(EngineError, match="cannot drop"):
        sequence.commit([0])
    sequence.commit([0, 1])
    with pytest.raises(EngineError, match="cannot drop"):
        sequence.truncate(5)
    with pytest.raises(EngineError, match="cannot fork a part"):
        sequence.fork(5)
    assert sequence.length == 22
    branch = sequence.fork(22)
    assert np.allclose(feed(model, branch, (3,)), feed(model, sequence, (3,)), atol=CLOSE)
    sequence.truncate(0)
    assert np.allclose(feed(model, sequence, WORDS[:20]), whole, atol=CLOSE)


def test_several_states_in_a_pass(make: Make) -> None:
    model = make("mamba")
    first, second = model.open(), model.open()
    logits = model.evaluate([Segment(first, WORDS[:5]), Segment(second, WORDS[5:8], n_outputs=1)]).rows([0, 1, 2, 3, 4, 7]).copy()
    first.commit(range(5))
    second.commit(range(3))
    assert np.allclose(logits[:5], fresh(model, WORDS[:5]), atol=CLOSE)
    assert np.allclose(logits[5:], fresh(model, WORDS[5:8])[-1:], atol=CLOSE)


def test_a_state_that_was_cancelled_is_lost_and_says_so(make: Make) -> None:
    model = make("mamba")
    sequence, other = model.open(), model.open()
    feed(model, sequence, WORDS[:5])
    feed(model, other, WORDS[:5])
    with pytest.raises(EngineError, match="cancelled"):
        model.evaluate([Segment(sequence, (1, 2))], SetOnQuestion(3))
    with pytest.raises(EngineError, match="lost in a failed pass"):
        model.evaluate([Segment(sequence, (1, 2))])
    sequence.close()
    assert np.allclose(feed(model, other, (1,)), fresh(model, (*WORDS[:5], 1))[-1:], atol=CLOSE)


def test_a_pass_that_llama_cpp_undoes_itself_loses_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("mamba")
    sequence = model.open()
    feed(model, sequence, WORDS[:5])
    for code in (1, -1):
        with monkeypatch.context() as patch:
            patch.setattr(library().api, "llama_decode", lambda *_, code=code: code)
            with pytest.raises(EngineError):
                model.evaluate([Segment(sequence, (1, 2))])
    assert np.allclose(feed(model, sequence, (1,)), fresh(model, (*WORDS[:5], 1))[-1:], atol=CLOSE)


def test_rolling_back_beyond_a_window_of_16(make: Make) -> None:
    model = make("gemma2", n_context=512, n_sequences=2, n_cells=512, max_rows=16)
    sequence, other = model.open(), model.open()
    for start in range(0, 400, 16):  # beyond the 256 cells that llama.cpp would give the window alone
        feed(model, sequence, (WORDS * 4)[start : start + 16], outputs=0)
    sequence.truncate(32)
    for start in (0, 16):
        feed(model, other, WORDS[start : start + 16], outputs=0)
    assert np.allclose(feed(model, sequence, WORDS[60:70]), feed(model, other, WORDS[60:70]), atol=CLOSE)


def test_a_window_that_has_passed_is_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("gemma2")
    sequence = model.open()
    feed(model, sequence, WORDS[:60])
    monkeypatch.setattr(library().api, "llama_memory_seq_pos_min", lambda memory, line: 24)
    sequence.truncate(40)  # needs 24 to 39
    with pytest.raises(EngineError, match="sliding window of 16"):
        sequence.truncate(39)
    with pytest.raises(EngineError, match="sliding window"):
        sequence.reserve(1)
    sequence.close()
