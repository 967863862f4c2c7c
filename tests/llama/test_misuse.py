"""Every misuse of the ports raises, and changes nothing."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.errors import EngineError
from outrider.llama import LlamaModel, load
from outrider.llama.library import library
from outrider.llama.sequence import LlamaSequence
from outrider.model import Segment
from tests.llama.conftest import Make
from tests.llama.passes import CLOSE, WORDS, feed, fresh


@pytest.mark.parametrize(
    ("segment", "says"),
    [
        (lambda sequence: Segment(sequence, ()), "no rows"),
        (lambda sequence: Segment(sequence, (1, 2), parents=(-1, -1)), "branches"),
        (lambda sequence: Segment(sequence, (1, 2, 3), parents=(-1, 0)), "branches"),
        (lambda sequence: Segment(sequence, (1, 260)), "vocabulary of 260"),
        (lambda sequence: Segment(sequence, (-1, 1)), "vocabulary of 260"),
        (lambda sequence: Segment(sequence, (1, 2), n_outputs=3), "3 outputs"),
        (lambda sequence: Segment(sequence, (1, 2), n_outputs=-1), "-1 outputs"),
        (lambda sequence: Segment(sequence, WORDS[:65]), "66 rows"),
        (lambda sequence: Segment(object(), (1,)), "another model"),
    ],
)
def test_a_bad_segment_changes_nothing(make: Make, segment: Callable[[LlamaSequence], Segment], says: str) -> None:
    model = make()
    sequence, other = model.open(), model.open()
    feed(model, sequence, WORDS[:5])
    with pytest.raises(EngineError, match=says):
        model.evaluate([Segment(other, (1,)), segment(sequence)])
    assert (sequence.length, other.length) == (5, 0)
    assert np.allclose(feed(model, sequence, (3,)), fresh(model, (*WORDS[:5], 3))[-1:], atol=CLOSE)


def test_a_chain_may_be_spelt_out(make: Make) -> None:
    model = make()
    sequence = model.open()
    model.evaluate([Segment(sequence, (1, 2, 3), parents=(-1, 0, 1))])
    sequence.commit([0, 1, 2])


def test_misuse_of_passes(make: Make) -> None:
    model, stranger = make(), make()
    sequence = model.open()
    with pytest.raises(EngineError, match="at least one row"):
        model.evaluate([])
    with pytest.raises(EngineError, match="twice in a pass"):
        model.evaluate([Segment(sequence, (1,)), Segment(sequence, (2,))])
    with pytest.raises(EngineError, match="another model"):
        model.evaluate([Segment(stranger.open(), (1,))])
    with pytest.raises(EngineError, match="65 rows"):
        model.evaluate([Segment(sequence, WORDS[:60]), Segment(model.open(), WORDS[:5])])


def test_misuse_of_provisional_rows(make: Make) -> None:
    model = make()
    sequence = model.open()
    with pytest.raises(EngineError, match="no provisional rows"):
        sequence.commit(())
    model.evaluate([Segment(sequence, (1, 2, 3))])
    for touch in (lambda: model.evaluate([Segment(sequence, (1,))]), lambda: sequence.truncate(0), lambda: sequence.fork(0)):
        with pytest.raises(EngineError, match="neither committed nor dropped"):
            touch()
    for path in ([1], [0, 2], [0, 1, 2, 3], [1, 0], [0, 0], [-1]):
        with pytest.raises(EngineError, match="not a path"):
            sequence.commit(path)
    sequence.commit([0, 1])
    with pytest.raises(EngineError, match="no provisional rows"):
        sequence.commit([0])
    assert sequence.length == 2


@pytest.mark.parametrize("length", [-1, 6])
def test_lengths_that_are_not_there(make: Make, length: int) -> None:
    model = make()
    sequence = model.open()
    feed(model, sequence, WORDS[:5])
    with pytest.raises(EngineError, match="cannot truncate"):
        sequence.truncate(length)
    with pytest.raises(EngineError, match="cannot fork"):
        sequence.fork(length)
    with pytest.raises(EngineError, match="cannot reserve"):
        sequence.reserve(-1)
    sequence.truncate(5)
    assert sequence.length == 5


def uses(model: LlamaModel, sequence: LlamaSequence) -> list[Callable[[], Any]]:
    return [
        lambda: sequence.length,
        lambda: sequence.reserve(1),
        lambda: sequence.fork(0),
        lambda: sequence.truncate(0),
        lambda: sequence.commit(()),
        lambda: model.evaluate([Segment(sequence, (1,))]),
    ]


def test_a_closed_sequence_can_do_nothing(make: Make) -> None:
    model = make()
    sequence = model.open()
    sequence.close()
    for use in [*uses(model, sequence), sequence.close]:
        with pytest.raises(EngineError, match="is closed"):
            use()


def test_a_closed_model_can_do_nothing(make: Make) -> None:
    model = make()
    sequence = model.open()
    evaluation = model.evaluate([Segment(sequence, (1, 2))])
    model.close()
    for use in [*uses(model, sequence), model.open, model.close]:
        with pytest.raises(EngineError, match="closed"):
            use()
    with pytest.raises(EngineError, match="closed"):
        evaluation.rows([0])
    with pytest.raises(EngineError, match="closed"):
        model.tokenizer.piece(1)
    assert model.capabilities.n_vocab == 260
    sequence.close()  # a caller's clean-up may come late, but only once
    with pytest.raises(EngineError, match="closed"):
        sequence.close()


def test_a_forgotten_model_frees_itself(tiny_files: Callable[[str], Path]) -> None:
    model = load(tiny_files("llama"))
    gone, free = weakref.ref(model), model._free
    model.evaluate([Segment(model.open(), (1,))])
    del model
    assert gone() is None
    assert not free.alive


def test_a_second_thread_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    first, second = model.open(), model.open()
    real = library().api.llama_decode
    said: list[str] = []

    def intrude(context: Any, batch: Any) -> int:
        monkeypatch.setattr(library().api, "llama_decode", real)
        for use in (lambda: model.evaluate([Segment(second, (1,))]), model.close):
            with pytest.raises(EngineError) as caught:
                use()
            said.append(caught.value.message)
        return int(real(context, batch))

    def intrude_from_a_thread(context: Any, batch: Any) -> int:
        code: list[int] = []
        thread = threading.Thread(target=lambda: code.append(intrude(context, batch)))
        thread.start()
        thread.join()
        return code[0]

    monkeypatch.setattr(library().api, "llama_decode", intrude_from_a_thread)
    model.evaluate([Segment(first, (1, 2))])
    assert said == ["another thread is running a pass of this model"] * 2
