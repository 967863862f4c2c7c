"""A pass that fails leaves every sequence as it was: one failure per return code, and everything that can interrupt."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

from outrider.errors import CacheFullError, CancelledError, EngineError
from outrider.llama.library import library
from outrider.model import Segment
from tests.llama.conftest import Make
from tests.llama.passes import WORDS, SetOnQuestion, check_unharmed, fresh, prepared


@pytest.mark.parametrize("after", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (1, CacheFullError, "no free KV cache cells"),
        (2, CancelledError, "cancelled"),
        (-1, EngineError, "invalid"),
        (-2, EngineError, "could not allocate or prepare"),
        (-3, EngineError, "computation failed"),
        (-77, EngineError, "does not define"),
        (3, EngineError, "does not define"),
    ],
)
def test_every_return_code_is_read_and_undone(
    make: Make, monkeypatch: pytest.MonkeyPatch, code: int, error: type[EngineError], says: str, *, after: bool
) -> None:
    model, first, second = prepared(make)
    api = library().api
    real = api.llama_decode

    def fail(context: Any, batch: Any) -> int:
        if after:  # leaves its rows in the cache, as a fatal error may
            assert real(context, batch) == 0
        return code

    with monkeypatch.context() as patch:
        patch.setattr(api, "llama_decode", fail)
        with pytest.raises(EngineError, match=says) as caught:
            model.evaluate([Segment(first, (1, 2, 3)), Segment(second, (4,))])
    assert type(caught.value) is error
    check_unharmed(model, first, second)


def test_logits_that_do_not_come_are_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model, first, second = prepared(make)
    with monkeypatch.context() as patch:
        patch.setattr(library().api, "llama_get_logits_ith", lambda context, row: ctypes.POINTER(ctypes.c_float)())
        with pytest.raises(EngineError, match="did not hand out the logits"):
            model.evaluate([Segment(first, (1, 2, 3)), Segment(second, (4,))])
    check_unharmed(model, first, second)


def test_cancelled_before_it_began(make: Make) -> None:
    model, first, second = prepared(make)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        model.evaluate([Segment(first, (1,)), Segment(second, (4,))], cancel)
    check_unharmed(model, first, second)


@pytest.mark.parametrize("n_questions", [1, 2, 10, 30])
def test_cancelled_in_the_middle(make: Make, n_questions: int) -> None:
    model, first, second = prepared(make)
    with pytest.raises(CancelledError):
        model.evaluate([Segment(first, (1, 2, 3)), Segment(second, (4,))], SetOnQuestion(n_questions))
    check_unharmed(model, first, second)


def test_an_event_that_is_not_set_changes_nothing(make: Make) -> None:
    model, first, second = prepared(make)
    plain = fresh(model, WORDS[:9])
    sequence = model.open()
    watched = model.evaluate([Segment(sequence, WORDS[:9])], threading.Event()).rows(range(9))
    assert np.array_equal(watched, plain)
    sequence.close()
    check_unharmed(model, first, second)


class Impatient(BaseException):
    """Stands for KeyboardInterrupt."""


def test_what_interrupts_a_pass_comes_out_of_it(make: Make) -> None:
    class Interrupting(SetOnQuestion):
        def is_set(self) -> bool:
            if super().is_set():
                raise Impatient
            return False

    model, first, second = prepared(make)
    with pytest.raises(Impatient):
        model.evaluate([Segment(first, (1, 2, 3)), Segment(second, (4,))], Interrupting(5))
    check_unharmed(model, first, second)


@pytest.mark.parametrize("use", ["truncate", "commit", "restore"])
def test_a_rollback_that_fails_is_never_dropped(make: Make, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    model, first, second = prepared(make)
    api = library().api
    real = api.llama_memory_seq_rm
    with monkeypatch.context() as patch:
        patch.setattr(api, "llama_memory_seq_rm", lambda *_: False)
        if use == "truncate":
            with pytest.raises(EngineError, match="could not drop"):
                first.truncate(3)
        elif use == "commit":
            model.evaluate([Segment(first, (1, 2))])
            with pytest.raises(EngineError, match="could not drop"):
                first.commit([0])
        else:
            patch.setattr(api, "llama_decode", lambda *_: -3)
            with pytest.raises(EngineError, match="code -3"):
                model.evaluate([Segment(first, (1, 2))])
    assert api.llama_memory_seq_rm is real
    with pytest.raises(EngineError):
        first.length  # noqa: B018  # reading it is the use
    with pytest.raises(EngineError):
        model.evaluate([Segment(first, (1,))])
    first.close()
    assert second.length == 7
    assert model.open().length == 0
