"""How a user names a model: a file, a name of the catalogue, or hf:OWNER/REPO/FILE."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outrider.errors import ModelMissingError, UnknownModelError
from outrider.gguf import split_names
from outrider.models import catalogue
from outrider.models.catalogue import CatalogueModel, HubFile

HUB_PREFIX: Final = "hf:"
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of the models directory and where it comes from.

    Attributes:
        path: where it is kept, whether or not it is there.
        hub: its first source.
        model: its entry in the catalogue; None for any other file of the hub.
    """

    path: Path
    hub: HubFile
    model: CatalogueModel | None = None

    @property
    def complete(self) -> bool:
        """Whether a file of the right length is there; the checksum is `pull`'s business."""
        if self.model is None or not self.path.is_file():
            return self.path.is_file()
        return self.path.stat().st_size == self.model.n_bytes


def model_files(text: str, directory: Path) -> list[ModelFile]:
    """The files that a catalogue name or hf:OWNER/REPO/FILE stands for; more than one if the model is split.

    Raises:
        UnknownModelError: there is no such name, or the hf: form is malformed.
        ModelMissingError: the text is a path, and there is no file.
        ModelFileError: the numbers in the name of a split model's part make no sense.
    """
    if text.startswith(HUB_PREFIX):
        return [ModelFile(_hub_path(file, directory), file) for file in _split_files(parse_hub_file(text))]
    if not catalogue.is_catalogued(text) and _looks_like_a_path(text):
        what = "there is no such file"
        if _exists(text):
            what = "it is a directory, expected a GGUF file" if _is_directory(text) else "it is no regular file, expected a GGUF file"
        raise ModelMissingError(what, "check the path, or see `outrider models list` for names to pull", path=text)
    model = catalogue.find(text)
    return [ModelFile(directory / model.file_name, model.hub, model)]


def parse_hub_file(text: str) -> HubFile:
    """The parts of hf:OWNER/REPO/FILE or hf:OWNER/REPO@REVISION/FILE; FILE may lie in folders.

    Raises:
        UnknownModelError: the text does not have that form.
    """
    owner, _, rest = text.removeprefix(HUB_PREFIX).partition("/")
    repository, _, file = rest.partition("/")
    repository, _, revision = repository.partition("@")
    segments = [owner, repository, revision or "main", *file.split("/")]
    if not all(_SEGMENT.fullmatch(segment) for segment in segments) or not file.endswith(".gguf"):
        raise UnknownModelError(f"{text!r} is not of the form hf:OWNER/REPO/FILE", "FILE is the path of a .gguf file in the repository")
    return HubFile(f"{owner}/{repository}", file, revision or "main")


def _hub_path(file: HubFile, directory: Path) -> Path:
    revision = "" if file.revision == "main" else f"@{file.revision}"
    return directory / "hf" / f"{file.repository}{revision}" / file.file


def _split_files(file: HubFile) -> list[HubFile]:
    """All parts of a split model, the first one first; just the file if it is not split."""
    folder, slash, name = file.file.rpartition("/")
    return [HubFile(file.repository, f"{folder}{slash}{part}", file.revision) for part in split_names(name)]


def _looks_like_a_path(text: str) -> bool:
    separators = [separator for separator in (os.sep, os.altsep) if separator]
    return text.endswith(".gguf") or text.startswith("~") or any(separator in text for separator in separators) or _is_directory(text)


def _exists(text: str) -> bool:
    return os.path.exists(os.path.expanduser(text))  # noqa: PTH110, PTH111  # as for a directory: pathlib raises where these answer


def _is_directory(text: str) -> bool:
    return os.path.isdir(text)  # noqa: PTH112  # Path.is_dir raises for names too long
