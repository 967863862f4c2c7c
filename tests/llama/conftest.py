"""Tiny models for the adapter: loaded in milliseconds, closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from outrider.llama import LlamaModel, LlamaOptions, load

Make: TypeAlias = Callable[..., LlamaModel]


@pytest.fixture(scope="session")
def tiny_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Path of a sound tiny model of an architecture."""
    from tests.llama.tiny import TinyModel

    folder = tmp_path_factory.mktemp("tiny")
    made: dict[str, Path] = {}

    def path(arch: str = "llama") -> Path:
        if arch not in made:
            made[arch] = TinyModel(arch=arch).write(folder / f"{arch}.gguf")
        return made[arch]

    return path


@pytest.fixture
def make(tiny_files: Callable[[str], Path]) -> Iterator[Make]:
    """Load a tiny model with these LlamaOptions; one thread, because its passes are shorter than a thread's start."""
    models: list[LlamaModel] = []

    def loaded(arch: str = "llama", **options: Any) -> LlamaModel:
        model = load(tiny_files(arch), LlamaOptions(**{"n_context": 256, "n_sequences": 4, "max_rows": 64, "threads": 1} | options))
        models.append(model)
        return model

    yield loaded
    for model in models:
        if model._free.alive:
            model.close()
