"""Outrider: a local language model answers faster without changing a single token.

import outrider
settings = outrider.Settings.of(model="qwen2.5-coder-1.5b", draft_model="qwen2.5-coder-0.5b", max_tokens=200)
with outrider.load(settings) as pair:
    print(pair.generate("Write a function that reverses a list.").text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from outrider.api import Pair as Pair
    from outrider.chat import ChatSession as ChatSession
    from outrider.chat import Message as Message
    from outrider.config import Settings as Settings
    from outrider.errors import OutriderError as OutriderError
    from outrider.loading import load as load
    from outrider.result import GenerationResult as GenerationResult
    from outrider.session import TokenEvent as TokenEvent

__version__: Final = "0.1.0"

# Public names and where they live. They are imported on first use, so that `outrider --help` needs none of their libraries.
_HOMES: Final = {
    "ChatSession": "outrider.chat",
    "GenerationResult": "outrider.result",
    "Message": "outrider.chat",
    "OutriderError": "outrider.errors",
    "Pair": "outrider.api",
    "Settings": "outrider.config",
    "TokenEvent": "outrider.session",
    "load": "outrider.loading",
}
__all__ = [*_HOMES]  # noqa: PLE0604  # the keys are strings; ruff cannot see that


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
