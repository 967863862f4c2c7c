"""The second thread gets an error, and the first leaves the door open behind it."""

from __future__ import annotations

import pytest

from outrider.errors import EngineError
from outrider.exclusive import Exclusive


def test_the_second_comer_is_refused_with_the_hint() -> None:
    busy = Exclusive()
    with busy.held("first"), pytest.raises(EngineError, match="another thread is running a pass.*come later"), busy.held("come later"):
        pytest.fail("two were inside")


def test_an_error_inside_lets_the_next_one_in() -> None:
    busy = Exclusive()
    with pytest.raises(ValueError, match="inside"), busy.held(""):
        raise ValueError("inside")
    with busy.held(""):
        pass
