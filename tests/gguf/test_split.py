"""Models in several files."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.errors import ModelFileError
from outrider.gguf import read_header, read_hyper_parameters, read_split, split_names
from tests.gguf_files import U16, U32, GgufFile, tiny_model


def write_parts(directory: Path, stem: str = "tiny") -> tuple[list[Path], GgufFile]:
    """The tiny model of two layers in three parts, the first of which holds no tensors."""
    whole = tiny_model(n_layers=2)
    tensors = whole.tensors
    first = tiny_model(n_layers=2)
    first.tensors = []
    parts = [first, GgufFile(tensors=tensors[:10]), GgufFile(tensors=tensors[10:])]
    paths = []
    for index, part in enumerate(parts):
        part.set("split.no", U16, index).set("split.count", U16, 3).set("split.tensors.count", U32, len(tensors))
        paths.append(part.write(directory / f"{stem}-{index + 1:05d}-of-00003.gguf"))
    return paths, whole


@pytest.mark.parametrize("given", [0, 1, 2])
def test_all_parts_are_found_from_any_of_them(given: int, tmp_path: Path) -> None:
    paths, whole = write_parts(tmp_path)
    split = read_split(paths[given])
    assert [part.path for part in split.parts] == [str(path) for path in paths]
    assert [tensor.name for tensor in split.tensors] == [tensor.name for tensor in whole.tensors]
    assert split.file_bytes == sum(path.stat().st_size for path in paths)
    found = read_hyper_parameters(split.header, split.tensors)
    assert found.n_parameters == sum(tensor.size // 4 for tensor in whole.tensors)


def test_one_part_alone_is_not_accused_of_lacking_tensors(tmp_path: Path) -> None:
    paths, _ = write_parts(tmp_path)
    assert read_hyper_parameters(read_header(paths[0])).n_layers == 2


def test_a_tensor_missing_from_all_parts_is_noticed(tmp_path: Path) -> None:
    paths, _ = write_parts(tmp_path)
    split = read_split(paths[0])
    with pytest.raises(ModelFileError, match="'blk.1.ffn_down.weight' is missing"):
        read_hyper_parameters(split.header, [tensor for tensor in split.tensors if tensor.name != "blk.1.ffn_down.weight"])


def test_a_plain_file_is_one_part(tmp_path: Path) -> None:
    path = tiny_model().write(tmp_path / "model.gguf")
    assert read_split(path).header.path == str(path)
    merged = tiny_model().set("split.count", U16, 0).write(tmp_path / "merged.gguf")
    assert len(read_split(merged).parts) == 1


def test_names_of_parts() -> None:
    assert split_names("m-00002-of-00003.gguf") == tuple(f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3))
    assert split_names("m-00001-of-00001.gguf") == ("m-00001-of-00001.gguf",)
    assert split_names("model.gguf") == ("model.gguf",)
    assert len(split_names("m-00001-of-65535.gguf")) == 65535


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../m-00001-of-00002.gguf",
        "/m-00001-of-00002.gguf",
        "a/../m-00001-of-00002.gguf",
        "..\\m-00001-of-00002.gguf",
        "m-00001-of-00002.gguf/",
        "m-00000-of-00002.gguf",
        "m-00003-of-00002.gguf",
        "m-00001-of-00000.gguf",
        "m-00001-of-65536.gguf",
        "m-99999-of-99999.gguf",
    ],
)
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(ModelFileError):
        split_names(name)
