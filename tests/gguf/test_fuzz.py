"""Whatever bytes a file has, only errors of this package come out."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from outrider.errors import OutriderError
from tests.gguf.rows import ROWS
from tests.gguf.rows_of_model import CONSUMED
from tests.gguf.test_hardening import read_everything
from tests.gguf_files import ARRAY, BOOL, F32, F64, LETTERS, STRING, TINY_TOKENS, VALUE_TYPES, GgufFile, tiny_model

FEW = 5
"""Malformed seeds of one kind."""

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)
NUMBERS = (0, 1, 2, 3, 7, 12, 127, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
ARCHITECTURES = ("llama", "qwen2", "qwen3")

SOUND = tuple(tiny_model(architecture).to_bytes() for architecture in ARCHITECTURES)


def malformed() -> Iterator[bytes]:
    draw = random.Random(0)  # noqa: S311  # a choice of examples, no secret
    for make in ROWS.values():
        files = [attempt.file for attempt in make()]
        data = [file.to_bytes() if isinstance(file, GgufFile) else file for file in files if isinstance(file, bytes | GgufFile)]
        small = [file for file in data if len(file) < 1 << 14]
        yield from draw.sample(small, min(FEW, len(small)))


SEEDS = st.one_of(st.sampled_from(SOUND), st.sampled_from(tuple(malformed())))


@st.composite
def bent(draw: st.DrawFn) -> bytes:
    """A seed with some bytes replaced, inserted, removed or repeated."""
    data = bytearray(draw(SEEDS))
    for _ in range(draw(st.sampled_from((1, 1, 2, 5)))):
        at = draw(st.integers(0, len(data)))
        n = draw(st.sampled_from((1, 1, 4, 8, 32)))
        match draw(st.sampled_from(("replace", "flip", "flip", "insert", "remove", "repeat", "fill"))):
            case "replace":
                data[at : at + n] = draw(st.binary(min_size=n, max_size=n))
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=n))
            case "remove":
                del data[at : at + n]
            case "repeat":
                data[at:at] = data[at : at + n]
            case "fill":
                data[at : at + n] = bytes([draw(st.sampled_from(INTERESTING))]) * n
    return bytes(data)


@st.composite
def rewritten(draw: st.DrawFn) -> bytes:
    """A sound file some of whose keys and tensors say something else: it gets past the format, to what reads the values."""
    architecture = draw(st.sampled_from(ARCHITECTURES))
    file = tiny_model(architecture)
    names = [name.replace("qwen2", architecture, 1) if name.startswith("qwen2") else name for name in CONSUMED]
    for _ in range(draw(st.integers(1, 3))):
        match draw(st.sampled_from(("set", "set", "array", "drop", "shape"))):
            case "set":
                kind = draw(st.sampled_from([kind for kind in VALUE_TYPES if kind != ARRAY]))
                file.set(draw(st.sampled_from(names)), kind, draw(values(kind)))
            case "array":
                kind = draw(st.sampled_from([kind for kind in VALUE_TYPES if kind != ARRAY]))
                file.set(draw(st.sampled_from(names)), ARRAY, (kind, draw(st.lists(values(kind), max_size=12))))
            case "drop":
                file.drop(draw(st.sampled_from(names)))
            case "shape":
                tensor = draw(st.sampled_from(file.tensors))
                tensor.shape = tuple(draw(st.lists(st.integers(0, 12), min_size=1, max_size=4)))
    return file.to_bytes()


def values(kind: int) -> st.SearchStrategy[Any]:
    """Values of a type, the awkward ones preferred."""
    if kind == STRING:
        return st.one_of(st.sampled_from((*TINY_TOKENS, "a b", "gpt2", "llama", "none", "yarn", *ARCHITECTURES)), st.text(max_size=5))
    if kind in (F32, F64):
        return st.one_of(st.sampled_from((0.0, 1.0, 1e-6, math.nan, math.inf, -math.inf)), st.floats(width=32))
    if kind == BOOL:
        return st.integers(0, 2)
    n_bits = 8 * struct.calcsize(LETTERS[kind])
    low, high = (-(1 << n_bits - 1), (1 << n_bits - 1) - 1) if LETTERS[kind].islower() else (0, (1 << n_bits) - 1)
    return st.one_of(st.sampled_from([number for number in NUMBERS if number <= high]), st.integers(low, high))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "model.gguf"


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.one_of(bent(), rewritten()))
@example(data=b"")
@example(data=b"GGUF")
def test_only_our_errors_escape(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    try:
        read_everything(path)
    except OutriderError as error:
        assert "\n" not in str(error)  # noqa: PT017  # not every file is bad
        assert error.hint  # noqa: PT017
