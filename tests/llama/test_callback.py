"""Nothing that Python raises inside a native call is lost, Ctrl-C included."""

from __future__ import annotations

import ctypes
import functools
import itertools
import operator
import signal
import threading
from collections.abc import Iterator

import pytest

from outrider.llama.callback import CancelWatch, GuardedCall

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)


def test_answers_pass_through() -> None:
    call = GuardedCall(lambda argument: argument == 7, on_error=True)
    native = CALLBACK(call.enter)
    assert native(7) is True
    assert native(8) is False
    assert call.take_error() is None


def test_what_is_raised_inside_is_kept_until_it_is_taken() -> None:
    def fail(_: object) -> bool:
        raise ValueError("inside")

    call = GuardedCall(fail, on_error=True)
    native = CALLBACK(call.enter)
    assert native(0) is True
    assert native(0) is True  # sticky, so that native code stops at the next question too
    error = call.take_error()
    assert isinstance(error, ValueError)
    assert call.take_error() is None


class Interrupted(BaseException):
    """What the signal handler raises here, so that a failure does not end the test run."""


@pytest.fixture
def _raising_handler() -> Iterator[None]:
    def handler(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="this system's C library has no signal to raise here")
@pytest.mark.usefixtures("_raising_handler")
def test_a_signal_that_arrives_in_native_code_is_kept_too() -> None:
    """As in a pass: the signal comes between two calls of the callback, and no Python code runs in between."""
    call = GuardedCall(lambda _: False, on_error=True)
    libc = ctypes.CDLL(None)
    calls = itertools.starmap(operator.call, [(libc["raise"], signal.SIGALRM.value), (call.enter, None)])
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(functools.partial(next, calls))  # next(calls, argument): no frame of ours
    sort = libc["qsort"]
    sort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, type(compare)]
    sort((ctypes.c_int * 3)(), 3, ctypes.sizeof(ctypes.c_int), compare)  # asks at least twice
    assert next(calls, None) is None
    assert isinstance(call.take_error(), Interrupted)


def test_a_watch_without_an_event_never_stops() -> None:
    watch = CancelWatch()
    assert not watch.is_set(None)
    watch.event = threading.Event()
    assert not watch.is_set(None)
    watch.event.set()
    assert watch.is_set(None)
