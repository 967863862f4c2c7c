"""What is in the catalogue, and what of it is on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from outrider.models import catalogue
from outrider.models.catalogue import CatalogueModel
from outrider.models.partial import arrived_bytes
from outrider.models.reference import HUB_PREFIX, ModelFile


class State(StrEnum):
    """How much of a model is on the disk."""

    PULLED = "pulled"  # a file of the right length; `pull` checks its sum
    PARTIAL = "partial"  # an interrupted pull can go on
    DAMAGED = "damaged"  # a file of the wrong length
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Listed:
    """One model as `outrider models list` shows it.

    Attributes:
        name: what to type.
        path: where its file is or would be.
        n_bytes: of the whole file.
        arrived_bytes: of them on the disk.
        state: what that amounts to.
        model: its entry in the catalogue; None for a file that was pulled from the hub by its own name.
    """

    name: str
    path: Path
    n_bytes: int
    arrived_bytes: int
    state: State
    model: CatalogueModel | None = None

    def document(self) -> dict[str, Any]:
        """Everything, for `--json`."""
        found: dict[str, Any] = {"name": self.name, "state": self.state.value, "bytes": self.n_bytes, "arrived_bytes": self.arrived_bytes}
        found["path"] = str(self.path)
        if self.model is not None:
            packages = [f"{part.package}=={part.version}" for part in self.model.parts]
            found |= {
                "title": self.model.title,
                "licence": self.model.licence,
                "role": self.model.role.value,
                "description": self.model.description,
                "sha256": self.model.sha256,
                "sources": [{"hub": str(self.model.hub)}, {"packages": packages}],
            }
        return found


def listing(directory: Path) -> list[Listed]:
    """The catalogue in its order, then every file of the hub that was pulled by its own name."""
    return [*(_listed(model, directory) for model in catalogue.CATALOGUE), *_from_hub(directory)]


def _listed(model: CatalogueModel, directory: Path) -> Listed:
    path = directory / model.file_name
    if ModelFile(path, model.hub, model).complete:
        return Listed(model.name, path, model.n_bytes, model.n_bytes, State.PULLED, model)
    if path.is_file():
        return Listed(model.name, path, model.n_bytes, path.stat().st_size, State.DAMAGED, model)
    arrived = arrived_bytes(path, model.sha256, model.n_bytes)
    return Listed(model.name, path, model.n_bytes, arrived, State.PARTIAL if arrived else State.ABSENT, model)


def _from_hub(directory: Path) -> list[Listed]:
    root = directory / "hf"
    files = sorted(path for path in root.rglob("*.gguf") if path.is_file())
    sizes = [path.stat().st_size for path in files]
    return [
        Listed(HUB_PREFIX + path.relative_to(root).as_posix(), path, size, size, State.PULLED)
        for path, size in zip(files, sizes, strict=True)
    ]
