"""Nothing that a terminal would act on gets through; everything that people write does."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from outrider.text.visible import visible


def test_control_characters_become_pictures() -> None:
    assert visible("a\x1b[2J\x9b\x7f\r\n\tb") == "a␛[2J\ufffd␡␍\n\tb"
    assert visible("file\u202egnp.exe\u2066") == "file\ufffdgnp.exe\ufffd"


def test_writing_stays_as_it_is() -> None:
    text = "naïve Ġé漢 🚀 👩‍🚀\u00a0\u200fא\n\t"
    assert visible(text) == text


@given(st.text())
def test_nothing_acts_on_a_terminal(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    assert not [character for character in shown if unicodedata.category(character) == "Cc" and character not in "\n\t"]
