"""Tiny models for the core's tests. Nothing here imports the core before a test runs: it may not have been built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from outrider.native import NativeModel

Loader: TypeAlias = "Callable[..., NativeModel]"


@pytest.fixture(scope="session")
def mixed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A qwen2 model whose matrices go through all formats in turn."""
    from tests.native.tiny_models import Shape, write_model

    path = tmp_path_factory.mktemp("native") / "mixed.gguf"
    write_model(path, Shape())
    return path


@pytest.fixture
def loaded() -> Iterator[Loader]:
    """Loads models and closes them at the end."""
    from outrider.native import NativeOptions, load

    models: list[NativeModel] = []

    def open_model(path: Path, **options: object) -> NativeModel:
        model = load(path, NativeOptions(**{"n_context": 1024, "n_sequences": 4, "threads": 2, **options}))  # type: ignore[arg-type]
        models.append(model)
        return model

    yield open_model
    for model in models:
        model.close()
