"""From what a user typed to a file on the disk, pulling it first if need be."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.errors import ModelMissingError
from outrider.models import store
from outrider.models.progress import Progress, SilentProgress
from outrider.models.reference import model_files


def resolve(text: str) -> Path:
    """The file that `text` stands for: a file that exists, else a model of the catalogue or of the hub that was pulled.

    Raises:
        UnknownModelError: it is neither a file nor a name.
        ModelMissingError: it is not there; the hint says how to get it.
    """
    if existing := _existing(text):
        return existing
    files = model_files(text, store.models_directory())
    for file in files:
        if not file.complete:
            what = "it is incomplete" if file.path.is_file() else "it has not been pulled yet"
            raise ModelMissingError(f"{text}: {what}", f"outrider models pull {text}", path=str(file.path))
    return files[0].path


def ensure(text: str, progress: Progress | None = None) -> Path:
    """As `resolve`, but a model that is not there is pulled first, silently where no `progress` is given.

    Raises:
        UnknownModelError: it is neither a file nor a name.
        ModelMissingError: it is a path, and there is no such file.
        DownloadError, ChecksumError, DiskSpaceError: it could not be pulled.
    """
    if existing := _existing(text):
        return existing
    files = model_files(text, store.models_directory())
    if not all(file.complete for file in files):
        from outrider.models.targets import pull_file  # the clients are slow to load; most runs need none

        for file in files:
            if not file.complete:
                pull_file(file, progress or SilentProgress())
    return files[0].path


def _existing(text: str) -> Path | None:
    path = os.path.expanduser(text)  # noqa: PTH111  # Path.expanduser raises for an unknown user; a name is no error here
    return Path(path) if os.path.isfile(path) else None  # noqa: PTH113  # Path.is_file raises for names too long or not readable
