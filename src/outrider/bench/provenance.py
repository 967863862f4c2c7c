"""Everything that somebody would need to measure again: the same document part for every measurement."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from outrider.models import store

_PACKAGE: Final = Path(__file__).resolve().parent.parent


def model_record(path: Path) -> dict[str, Any]:
    """Name, size and checksum of a model file; of a split one, of the part that is named."""
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": store.sha256_of(path)}


def load_average() -> float | None:
    """Processes that wanted to run, over the last minute; None where the system doesn't say."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def command_line(words: Iterable[str]) -> str:
    """A command as it was given, but of a path only the name: where somebody keeps files is nobody else's business."""
    return shlex.join(_without_folder(word) for word in words)


def _without_folder(word: str) -> str:
    flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    is_path = "/" in value and not value.startswith("hf:")
    return f"{flag}{equals}{value.rstrip('/').rpartition('/')[2] if is_path else value}"


def provenance(machine: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]], command: Iterable[str]) -> dict[str, Any]:
    """The document part.

    Args:
        machine: the facts of `outrider doctor`.
        models: role to `model_record`.
        command: the words of the command line.
    """
    versions = {"outrider": machine["outrider"], "python": machine["python"], "llama-cpp-python": llama_version()}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(command),
        "machine": {name: machine[name] for name in ("cpu", "memory", "platform")},
        "versions": {**versions, **machine["packages"]},
        **commit(),
        "models": {role: dict(record) for role, record in models.items()},
    }


def llama_version() -> str | None:
    """Of the second backend, which is an extra; None where it is not installed."""
    try:
        return metadata.version("llama-cpp-python")
    except metadata.PackageNotFoundError:
        return None


def commit() -> dict[str, Any]:
    """The commit of the clone that this package runs from, and whether files differ from it; None for an installed package.

    Whether git tracks this very file decides: a package may be installed inside a clone of something else.
    """
    if _git("ls-files", "--error-unmatch", str(_PACKAGE / "__init__.py")) is None:
        return {"commit": None, "uncommitted_changes": None}
    return {"commit": _git("rev-parse", "HEAD"), "uncommitted_changes": bool(_git("status", "--porcelain"))}


def _git(*arguments: str) -> str | None:
    """What git says, or None where it fails or is not there."""
    command = ["git", "-C", str(_PACKAGE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  # words of our own
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
