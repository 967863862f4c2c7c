"""Malformed files end with an error that names the field and its offset: no crash, no hang, no leak, bounded memory."""

from __future__ import annotations

import os
import re
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import outrider.gguf.cursor
from outrider.errors import OutriderError
from outrider.gguf import StringArray, read_header, read_hyper_parameters, read_split, read_vocabulary
from tests.gguf.rows import ROWS
from tests.gguf.rows_of_model import CONSUMED
from tests.gguf.tries import SOMEWHERE, Try
from tests.gguf_files import ARRAY, STRING, U8, U32, GgufFile, Key, Tensor, array, scalar, string, tiny_model

# A header is kept as Python objects: a key of 14 bytes becomes a string, a value and a dictionary entry.
BYTES_PER_FILE_BYTE = 16
BYTES_IN_ANY_CASE = 4 << 20
LARGEST_FILE = 1 << 20

# Rows in which a number lies about how much is to come. Measuring slows Python down, so the others go without.
LYING = {
    "string length",
    "number of keys or tensors",
    "arrays",
    "n_dims",
    "product of dimensions",
    "sum of tensor sizes",
    "padding that wraps",
    "offset and size past the end",
    "shrunk after opening",
    "token piece length",
    "hyper-parameters",
    "header of absurd size",
}


def read_everything(path: Path) -> None:
    split = read_split(path)
    read_vocabulary(split.header)
    read_hyper_parameters(split.header, split.tensors if len(split.parts) > 1 else None)
    for part in split.parts:
        for value in part.metadata.values():
            if isinstance(value.value, StringArray):
                value.value.tolist()


def lowest_free_descriptor() -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def shrink_when_read(patch: pytest.MonkeyPatch, path: Path, length: int) -> None:
    read = os.read

    def shrinking(descriptor: int, n: int) -> bytes:
        os.truncate(path, length)
        return read(descriptor, n)

    patch.setattr(outrider.gguf.cursor.os, "read", shrinking)


def check(attempt: Try, path: Path) -> None:
    before = lowest_free_descriptor()
    given = attempt.write(path)
    with pytest.MonkeyPatch.context() as patch:
        if attempt.shrinks is not None:
            shrink_when_read(patch, path, attempt.shrinks)
        error = provoke(attempt, given)
    assert type(error) is attempt.error, f"{attempt.name}: {error!r}"
    assert re.search(attempt.says, error.message), f"{attempt.name}: {error.message}"
    assert "\n" not in str(error), attempt.name
    assert error.hint, attempt.name
    offset = getattr(error, "offset", None)
    if attempt.offset == SOMEWHERE:
        assert isinstance(offset, int), attempt.name
        assert f"at byte {offset}: " in str(error), attempt.name
    else:
        assert offset == attempt.offset, f"{attempt.name}: {error}"
    assert lowest_free_descriptor() == before, f"{attempt.name}: the file was left open"


def provoke(attempt: Try, path: Path) -> OutriderError:
    try:
        read_everything(path)
    except OutriderError as error:
        return error
    pytest.fail(f"{attempt.name}: nothing was noticed")


@contextmanager
def bounded_memory(path: Path) -> Iterator[None]:
    """Fails if what runs inside needs more than a small multiple of the file at any time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    n_bytes = min(path.stat().st_size, LARGEST_FILE)  # a sparse file has more than it holds
    assert peak <= BYTES_PER_FILE_BYTE * n_bytes + BYTES_IN_ANY_CASE


@pytest.mark.parametrize("kind", ROWS)
def test_every_malformed_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    n_tries = 0
    for attempt in ROWS[kind]():
        if kind in LYING:
            path.write_bytes(b"")
            with bounded_memory(path):
                check(attempt, path)
        else:
            check(attempt, path)
        n_tries += 1
    assert n_tries


def many_keys(n: int) -> GgufFile:
    return GgufFile(keys=[Key(f"{index:05x}", U8, b"\0") for index in range(n)])


def many_tensors(n: int) -> GgufFile:
    return GgufFile(keys=[Key("general.alignment", U32, scalar(U32, 8))], tensors=[Tensor(f"{i:05x}", (1,)) for i in range(n)], alignment=8)


def one_array(kind: int, values: list[Any]) -> GgufFile:
    return GgufFile(keys=[Key("x", ARRAY, array(kind, values))])


GREEDY = {
    # legal files that consist of whatever costs a reader most
    "keys": lambda: many_keys(20_000),
    "tensors": lambda: many_tensors(8_000),
    "empty strings": lambda: one_array(STRING, [""] * 100_000),
    "short strings": lambda: one_array(STRING, [f"{index:04x}" for index in range(50_000)]),
    "one long string": lambda: one_array(STRING, ["x" * 900_000]),
    "numbers": lambda: one_array(U8, [1] * 900_000),
    "a long value": lambda: GgufFile(keys=[Key("x", STRING, string("é" * 400_000))]),
}


@pytest.mark.parametrize("what", GREEDY)
def test_memory_is_a_small_multiple_of_the_file(what: str, tmp_path: Path) -> None:
    path = GREEDY[what]().write(tmp_path / "model.gguf")
    with bounded_memory(path):
        header = read_header(path)
        texts = [value.value.tolist() for value in header.metadata.values() if isinstance(value.value, StringArray)]
    assert header.metadata
    assert len(texts) == ("string" in what)


class Recorder(Mapping[str, Any]):
    """A mapping that remembers which keys were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values_by_key = values
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return self.values_by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)


def test_type_confusion_covers_every_key_that_is_read(tmp_path: Path) -> None:
    header = read_header(tiny_model().write(tmp_path / "model.gguf"))
    recorder = Recorder(header.metadata)
    watched = replace(header, metadata=recorder)
    read_vocabulary(watched)
    read_hyper_parameters(watched)
    assert recorder.asked == set(CONSUMED)
