"""Escapes in prompts."""

from __future__ import annotations

import pytest

from outrider.cli.prompt import unescape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"a\nb\tc\rd", "a\nb\tc\rd"),
        (r"\\n \' \"", "\\n ' \""),
        (r"\xe2\x82\xac and \x41", "€ and A"),
        (r"\q \x4 \xzz \\", "\\q \\x4 \\xzz \\"),
        ("plain ü", "plain ü"),
        ("ends in \\", "ends in \\"),
        (r"\xff", "\ufffd"),
    ],
)
def test_unescape(text: str, expected: str) -> None:
    assert unescape(text) == expected
