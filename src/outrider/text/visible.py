"""Text from people, models and files on its way to a terminal."""

from __future__ import annotations

from typing import Final

_UNKNOWN: Final = 0xFFFD
_C0: Final = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_C1: Final = dict.fromkeys(range(0x80, 0xA0), _UNKNOWN)
_REORDERING: Final = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], _UNKNOWN)
_PICTURES: Final = {**_C0, 0x7F: 0x2421, **_C1, **_REORDERING}


def visible(text: str) -> str:
    """The same text, harmless for a terminal.

    Control characters become pictures, so that none can move the cursor, change colours or ring; so do those that turn the
    direction of what follows, with which a text can look like another. Newlines, tabs and joiners stay.
    """
    return text.translate(_PICTURES)
