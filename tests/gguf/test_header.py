"""Sound files are read as they are: against what was written, and against the gguf package as an oracle."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from outrider.errors import ModelFileError
from outrider.gguf import TENSOR_TYPES, StringArray, TensorInfo, ValueType, read_header
from outrider.gguf.cursor import CHUNK_BYTES
from tests.gguf_files import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    U64,
    GgufFile,
    Key,
    Tensor,
    array,
    tiny_model,
)

EXTREMES: dict[int, list[Any]] = {
    U8: [0, 255],
    I8: [-128, 127],
    U16: [0, 2**16 - 1],
    I16: [-(2**15), 2**15 - 1],
    U32: [0, 2**32 - 1],
    I32: [-(2**31), 2**31 - 1],
    U64: [0, 2**64 - 1],
    I64: [-(2**63), 2**63 - 1],
    F32: [0.0, -1.5],
    F64: [0.1, 1e300],
    BOOL: [False, True],
    STRING: ["", "grüße 🙂\n"],
}


def read(file: GgufFile, tmp_path: Path) -> Any:
    return read_header(file.write(tmp_path / "model.gguf"))


@pytest.mark.parametrize("kind", EXTREMES)
def test_values_of_every_type(kind: int, tmp_path: Path) -> None:
    file = GgufFile()
    for index, value in enumerate(EXTREMES[kind]):
        file.set(f"x{index}", kind, value)
    file.set("all", ARRAY, (kind, EXTREMES[kind])).set("none", ARRAY, (kind, []))
    header = read(file, tmp_path)
    for index, value in enumerate(EXTREMES[kind]):
        found = header.metadata[f"x{index}"]
        assert found.type is ValueType(kind)
        assert found.value == value
        assert type(found.value) is type(value)
        assert found.offset == file.marks[f"value x{index}"]
    assert header.metadata["all"].element_type is ValueType(kind)
    assert header.array("all").tolist() == EXTREMES[kind]
    assert header.array("none").tolist() == []


def test_arrays_are_read_only(tmp_path: Path) -> None:
    header = read(GgufFile().set("x", ARRAY, (I32, [1, 2])), tmp_path)
    with pytest.raises(ValueError, match="read-only"):
        header.integers("x")[0] = 5
    with pytest.raises(TypeError):
        header.metadata["x"] = None


def test_tensors_lie_where_they_were_put(tmp_path: Path) -> None:
    file = tiny_model(n_layers=2)
    header = read(file, tmp_path)
    assert header.version == 3
    assert header.data_offset == file.marks["data"]
    assert header.file_bytes == len(file.to_bytes())
    assert [tensor.name for tensor in header.tensors] == [tensor.name for tensor in file.tensors]
    for found, written, start in zip(header.tensors, file.tensors, file._starts(), strict=True):
        assert (found.shape, found.n_bytes, found.offset) == (written.shape, written.size, file.marks["data"] + start)
        assert found.info_offset == file.marks[f"tensor {written.name}"]
        assert found.n_elements == int(np.prod(written.shape))


@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_alignment_is_obeyed(alignment: int, tmp_path: Path) -> None:
    file = tiny_model()
    file.alignment = alignment
    header = read(file.set("general.alignment", U32, alignment), tmp_path)
    assert header.alignment == alignment
    assert all(tensor.offset % alignment == 0 for tensor in header.tensors)


def test_version_2_and_files_without_tensors_are_read(tmp_path: Path) -> None:
    file = GgufFile(version=2).set("x", U8, 1)
    header = read(file, tmp_path)
    assert (header.version, header.tensors, header.integer("x")) == (2, (), 1)


def test_bytes_after_the_last_tensor_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_model().to_bytes() + bytes(100))
    assert read_header(str(path)).file_bytes == len(tiny_model().to_bytes()) + 100


def test_tensor_types_are_those_of_the_gguf_package() -> None:
    known = {kind.id: (kind.name, kind.block_size, kind.block_bytes) for kind in TENSOR_TYPES.values()}
    oracle = {int(kind): (kind.name, *sizes) for kind, sizes in gguf.constants.GGML_QUANT_SIZES.items()}
    assert {number: known[number] for number in oracle} == oracle
    assert set(known) - set(oracle) <= {42}  # Q2_0 came to llama.cpp after gguf 0.19


def test_missing_keys_and_defaults(tmp_path: Path) -> None:
    header = read(GgufFile().set("here", U8, 7), tmp_path)
    assert header.string("absent", None) is None
    assert header.integer("absent", 3) == 3
    assert header.number("absent", 0.5) == 0.5
    assert header.boolean("absent", default=True) is True
    assert header.array("absent", ()) == ()
    assert header.strings("absent", None) is None
    assert header.integers("absent", None) is None
    assert header.numbers("absent", None) is None
    for accessor in (header.string, header.integer, header.number, header.boolean, header.array, header.strings, header.integers):
        with pytest.raises(ModelFileError, match="'absent' is missing") as caught:
            accessor("absent")
        assert caught.value.offset is None
    with pytest.raises(ModelFileError, match="'here' is 7, expected 8 to 9"):
        header.integer("here", low=8, high=9)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_are_finite_whatever_their_range(value: float, tmp_path: Path) -> None:
    header = read(GgufFile().set("x", F64, value).set("xs", ARRAY, (F32, [0.0, value])), tmp_path)
    with pytest.raises(ModelFileError, match="expected a finite number"):
        header.number("x")
    with pytest.raises(ModelFileError, match="entry 1 of key 'xs'"):
        header.numbers("xs")


def test_strings_across_buffers(tmp_path: Path) -> None:
    texts = ["short", "x" * (CHUNK_BYTES - 40), "", "é" * CHUNK_BYTES, "a\0b", "end"] + ["many"] * 50_000
    file = GgufFile(keys=[Key("x", ARRAY, array(STRING, texts))]).set("after", U8, 9)
    header = read(file, tmp_path)
    strings = header.strings("x")
    assert isinstance(strings, StringArray)
    assert strings.tolist() == texts
    assert list(strings[:6]) == texts[:6]
    assert strings[-1] == "many"
    assert len(strings) == len(texts)
    with pytest.raises(IndexError):
        strings[len(texts)]
    data = file.to_bytes()
    for index in (0, 1, 3, 5, 50_000):
        offset = strings.offset_of(index)
        assert data[offset : offset + 8] == len(texts[index].encode()).to_bytes(8, "little")
    assert header.integer("after") == 9


def assert_like_oracle(path: Path) -> None:
    header = read_header(path)
    oracle = gguf.GGUFReader(path)
    assert header.data_offset == oracle.data_offset
    assert header.alignment == oracle.alignment
    fields = {name: field for name, field in oracle.fields.items() if not name.startswith("GGUF.")}
    assert list(header.metadata) == list(fields)
    for name, field in fields.items():
        value = header.metadata[name].value
        if isinstance(value, StringArray):
            assert value.tolist() == [bytes(field.parts[part]).decode() for part in field.data], name
        elif isinstance(value, np.ndarray):
            assert value.tolist() == field.contents(), name
        else:
            assert value == field.contents(), name
    assert [_summary(tensor) for tensor in header.tensors] == [
        (t.name, t.tensor_type.name, tuple(int(n) for n in t.shape), int(t.data_offset), int(t.n_bytes)) for t in oracle.tensors
    ]


def _summary(tensor: TensorInfo) -> tuple[Any, ...]:
    return tensor.name, tensor.type.name, tensor.shape, tensor.offset, tensor.n_bytes


def test_our_writer_and_reader_agree_with_the_gguf_package(tmp_path: Path) -> None:
    file = tiny_model(n_layers=2)
    for kind, values in EXTREMES.items():
        file.set(f"x{kind}", ARRAY, (kind, values))
    file.tensors.append(Tensor("half", (8, 3, 2), type=1))
    assert_like_oracle(file.write(tmp_path / "model.gguf"))


def test_files_of_the_gguf_package_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    writer.add_block_count(3)
    writer.add_token_list(["a", "é", ""])
    writer.add_token_scores([0.5, -1.0, 0.0])
    writer.add_bool("x.flag", val=True)
    quantised = np.zeros((4, 256 // 256 * 144), dtype=np.uint8)
    writer.add_tensor("blk.0.weight", np.ones((3, 5), dtype=np.float32))
    writer.add_tensor("quantised", quantised, raw_dtype=gguf.GGMLQuantizationType.Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert_like_oracle(path)
    header = read_header(path)
    assert header.tensors[0].shape == (5, 3)
    assert (header.tensors[1].type.name, header.tensors[1].shape) == ("Q4_K", (256, 4))


def test_a_real_file_is_read_as_the_gguf_package_reads_it(smollm2_path: Path) -> None:
    assert_like_oracle(smollm2_path)
