"""Writes GGUF files for tests with the reference package: the one place that knows how it wants them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gguf import GGMLQuantizationType, GGUFWriter
from numpy.typing import NDArray

Tensor: TypeAlias = tuple[str, NDArray[Any], GGMLQuantizationType | None]
"""Name, values or raw blocks, and the type of raw blocks."""


def write_gguf(path: Path, architecture: str, keys: Mapping[str, Any], tensors: Iterable[Tensor] = ()) -> Path:
    """Write a file; returns its path.

    Args:
        keys: typed by their Python type (int is 32 bits); None leaves a key out. A name that begins with a dot belongs to the
            architecture.
    """
    writer = GGUFWriter(path, architecture)
    for name, value in keys.items():
        _add(writer, architecture + name if name.startswith(".") else name, value)
    for name, data, kind in tensors:
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def byte_letters() -> list[str]:
    """How a byte-level vocabulary writes the 256 bytes: printable ones as they are, the others shifted."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def _add(writer: GGUFWriter, key: str, value: object) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    elif value is not None:
        raise TypeError(f"{key}: {type(value)}")
