"""Where model files are kept, how much room there is, and who may write: the models directory."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from outrider.errors import ConfigError

DIRECTORY_VARIABLE: Final = "OUTRIDER_MODELS_DIR"
BLOCK_BYTES: Final = 1 << 20

FreeBytes: TypeAlias = Callable[[Path], int]
"""Directory, which need not exist yet -> bytes that can be written there."""


def models_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """OUTRIDER_MODELS_DIR, else XDG_CACHE_HOME/outrider/models, else ~/.cache/outrider/models; need not exist yet.

    Raises:
        ConfigError: none is set and this user has no home directory.
    """
    try:
        if chosen := environment.get(DIRECTORY_VARIABLE):
            return Path(chosen).expanduser().absolute()
        cache = Path(environment.get("XDG_CACHE_HOME", ""))
        if not cache.is_absolute():  # the XDG specification: a relative path is to be ignored
            cache = Path.home() / ".cache"
    except RuntimeError as error:
        raise ConfigError("there is no home directory to keep models in", f"set {DIRECTORY_VARIABLE}") from error
    return cache / "outrider" / "models"


def free_bytes(directory: Path) -> int:
    """Bytes that can still be written there; `directory` need not exist yet."""
    existing = next(parent for parent in (directory, *directory.parents) if parent.exists())
    return shutil.disk_usage(existing).free


def sha256_of(file: Path) -> str:
    """SHA-256 of a file, lower-case hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def size_text(n_bytes: int) -> str:
    """A size for people, in decimal units as download pages give them."""
    if n_bytes < 1000:
        return f"{n_bytes} bytes"
    if n_bytes < 1_000_000:
        return f"{n_bytes / 1e3:.0f} kB"
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes < 10_000_000 else f"{n_bytes / 1e6:.0f} MB"
