"""What llama.cpp's return codes and last words mean as our errors."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from outrider.errors import (
    CacheFullError,
    CancelledError,
    EngineError,
    ModelFileError,
    OutOfMemoryError,
    OutriderError,
    UnsupportedModelError,
)

_MEMORY_WORDS: Final = (
    "failed to allocate",
    "unable to allocate",
    "out of memory",
    "failed to reserve",
    "cudamalloc failed",
    "not enough memory",
)
_UNSUPPORTED_WORDS: Final = (
    "unknown model architecture",
    "unknown architecture",
    "unknown pre-tokenizer",
    "unknown tokenizer",
    "unsupported",
    "not supported",
    "does not support",
    "does not divide",
    "cannot be used as main model",
)
_FATAL: Final = {-2: "it could not allocate or prepare the pass", -3: "its computation failed"}


def pass_error(code: int, reason: str) -> EngineError:
    """The error for a non-zero return code of llama_decode.

    Args:
        code: 1, 2 or negative, as llama.h defines them.
        reason: what llama.cpp logged.
    """
    if code == 1:
        return CacheFullError("llama.cpp found no free KV cache cells for the pass", "raise -c, or run fewer sequences")
    if code == 2:
        return CancelledError("the pass was cancelled")
    if code == -1:
        return EngineError(f"llama.cpp refused the batch as invalid: {reason}", "this is a bug in outrider: please report it")
    meaning = _FATAL.get(code, "it gave a code that llama.h does not define")
    if code == -2 and _has(reason, _MEMORY_WORDS):
        return OutOfMemoryError(f"llama.cpp ran out of memory in a pass: {reason}", "lower -c, or offload fewer layers")
    return EngineError(f"llama.cpp failed with code {code} ({meaning}): {reason}", "try --device none, or fewer layers on the GPU")


def load_error(path: Path, reason: str) -> OutriderError:
    """The error for a model that llama.cpp could not load; it says why only in its log."""
    if _has(reason, _MEMORY_WORDS):
        return OutOfMemoryError(f"no memory to load {path.name}: {reason}", "use a smaller model or a coarser quantisation, or lower -ngl")
    if _has(reason, _UNSUPPORTED_WORDS):
        return UnsupportedModelError(f"llama.cpp cannot run {path.name}: {reason}", "a newer llama-cpp-python may know it")
    return ModelFileError(f"llama.cpp cannot load it: {reason}", "download the file again", path=str(path))


def context_error(name: str, reason: str) -> OutriderError:
    """The error for a context that llama.cpp could not make for a loaded model."""
    if _has(reason, _MEMORY_WORDS):
        return OutOfMemoryError(f"no memory for the KV cache and buffers of {name}: {reason}", "lower -c, or use -ctk q8_0 -ctv q8_0")
    return UnsupportedModelError(f"llama.cpp cannot make a context for {name}: {reason}", "try the defaults of -fa, -ctk and -ctv")


def _has(reason: str, words: tuple[str, ...]) -> bool:
    lowered = reason.lower()
    return any(word in lowered for word in words)
