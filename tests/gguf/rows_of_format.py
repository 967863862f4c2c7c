"""Rows about the file format: what goes wrong before a header can be called read."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from outrider.errors import ModelMissingError, UnsupportedModelError
from tests.gguf.tries import SOMEWHERE, Try, edited
from tests.gguf_files import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    STRING,
    TYPE_Q4_K,
    U8,
    U16,
    U32,
    U64,
    VALUE_TYPES,
    GgufFile,
    Key,
    Tensor,
    array,
    string,
    tiny_model,
)

HUGE = (2**64 - 1, 2**63)


def string_length() -> Iterator[Try]:
    for length in (*HUGE, "remaining+1"):
        for where in ("key", "value", "tensor", "entry"):
            yield _string_length(where, length)


def _string_length(where: str, length: int | str) -> Try:
    file = tiny_model()
    marks = {"key": "key general.name", "value": "value general.name", "tensor": "tensor output_norm.weight"}
    mark: str | int = marks.get(where, 0)
    size = len(file.to_bytes())
    if where == "entry":
        mark = file.marks["value tokenizer.ggml.merges"] + 12 + len(string("a b"))
    at = file.marks[mark] if isinstance(mark, str) else mark
    lie = size - at - 8 + 1 if isinstance(length, str) else length
    data = bytearray(file.to_bytes())
    struct.pack_into("<Q", data, at, lie)
    return Try(f"{where} of {length}", bytes(data), f"length of .* is {lie} bytes, but the file has only {size - at - 8} more", at)


def counts() -> Iterator[Try]:
    remaining = len(tiny_model().to_bytes()) - 24
    for count in (2**60, *HUGE, remaining // 14 + 1):
        yield Try(f"{count} keys", edited(lambda f, n=count: setattr(f, "n_keys", n)), f"number of keys is {count}", "n_keys")
    for count in (2**60, *HUGE, remaining // 33 + 1):
        yield Try(f"{count} tensors", edited(lambda f, n=count: setattr(f, "n_tensors", n)), f"number of tensors is {count}", "n_tensors")
    for what, at, size in (("tensors", 8, 33), ("keys", 16, 14)):
        data = bytearray(GgufFile().to_bytes() + bytes((2**17 + 1) * size))
        struct.pack_into("<Q", data, at, 2**17 + 1)
        yield Try(f"too many {what}", bytes(data), f"number of {what} is 131073, expected at most 131072", at)
    yield Try("one key too many", edited(lambda f: setattr(f, "n_keys", len(f.keys) + 1)), "of tensor 0", SOMEWHERE)
    yield Try(
        "one tensor too many",
        edited(lambda f: setattr(f, "n_tensors", len(f.tensors) + 1)),
        "name of tensor",
        "start blk.0.attn_v.bias",
        shift=8,
    )


def arrays() -> Iterator[Try]:
    def put(payload: bytes) -> GgufFile:
        return edited(lambda f: f.put(Key("x", ARRAY, payload)))

    for kind, count in ((U64, 2**61), (STRING, 2**32), (U8, 2**64 - 1), (BOOL, 2**63), (F64, 2**20)):
        file = put(array(kind, [], count))
        yield Try(f"{count} elements of type {kind}", file, f"'x' has {count} elements", "value x", shift=4)
    file = put(array(ARRAY, [], 1) + array(U8, [1]))
    yield Try("nested", file, "'x' is an array of arrays", "value x", shift=0)
    for kind in (13, 2**32 - 1):
        file = put(struct.pack("<IQ", kind, 1))
        yield Try(f"element type {kind}", file, f"element type of .*'x' is {kind}, expected 0 to 12", "value x", shift=0)
        file = edited(lambda f, k=kind: f.put(Key("x", k, b"")))
        yield Try(f"value type {kind}", file, f"type of .*'x' is {kind}, expected 0 to 12", "type x")
    file = put(array(BOOL, [0, 1, 2]))
    yield Try("bool of 2 in an array", file, "entry 2 of .* is a bool of value 2", "value x", shift=14)
    yield Try("bool of 2", edited(lambda f: f.put(Key("x", BOOL, b"\x02"))), "a bool of value 2, expected 0 or 1", "value x")
    file = put(array(STRING, [b"fine", b"\xff\xfe"]))
    yield Try("text that is no UTF-8", file, "entry 1 of .* is not valid UTF-8", "value x", shift=12 + 12)
    file = put(array(STRING, ["é".encode()[:1], "é".encode()[1:]]))
    yield Try("a character across two entries", file, "entry 0 of .* is not valid UTF-8", "value x", shift=12)
    yield Try("a value that is no UTF-8", edited(lambda f: f.set("x", STRING, b"\xc3")), "value of key 'x' is not valid UTF-8", "value x")


def dimensions() -> Iterator[Try]:
    for n in (0, 5, 9, 2**32 - 1):
        file = edited(lambda f, n=n: setattr(f.tensors[1], "n_dims", n))
        yield Try(f"n_dims {n}", file, f"has {n} dimensions, expected 1 to 4", "dims output_norm.weight")


def product() -> Iterator[Try]:
    for shape, axis in (([2**42 + 1, 2**22], 1), ([2**63, 2], 0), ([2**32, 2**32], 1), ([2**62, 4], 1), ([2**31, 2**31, 2**31, 2**31], 2)):
        file = edited(lambda f, s=shape: _last(f, tuple(s)))
        yield Try(f"{shape}", file, r"has more than 2\^63 elements", f"dim {axis} last")
    file = edited(lambda f: _last(f, (2**60, 4)))
    yield Try("product of bytes", file, r"has more than 2\^63 bytes", "tensor type last")
    file = edited(lambda f: _last(f, (2**42 + 1,)))
    yield Try("[2^42+1]", file, "but the file has", "start last")


def _last(file: GgufFile, shape: tuple[int, ...], **more: int) -> None:
    file.tensors.append(Tensor("last", shape, n_bytes=0, **more))


def sum_of_sizes() -> Iterator[Try]:
    def edit(file: GgufFile) -> None:
        file.tensors = [Tensor("a", (2**61 - 8,), n_bytes=0), Tensor("b", (2**61 - 8,), n_bytes=0, start=2**63 - 32)]

    yield Try("two of nearly 2^63", edited(edit), "'a' occupies 9223372036854775776 bytes", "start a")
    small = edited(lambda f: _last(f, (2**61 - 8,), start=2**63))
    yield Try("start and size pass 2^64", small, "'last' occupies", "start last")


def padding() -> Iterator[Try]:
    file = edited(lambda f: _last(f, (4, 2**30 - 1, 2**30 + 1)))
    yield Try("F32 [4, 2^30-1, 2^30+1]", file, r"has more than 2\^63 bytes", "tensor type last")
    file = edited(lambda f: _last(f, (2**61 - 1,)))
    yield Try("size that wraps when padded", file, "'last' occupies", "start last")


def zero_dimension() -> Iterator[Try]:
    for shape in ((4, 0), (0,), (0, 4), (4, 4, 4, 0)):
        file = edited(lambda f, s=shape: _last(f, s))
        yield Try(f"{shape}", file, "of tensor 'last' is 0", f"dim {shape.index(0)} last")


def alignment() -> Iterator[Try]:
    for value in (0, 1, 3, 33, 2**23, 2**31, 2**32 - 1):
        file = edited(lambda f, v=value: f.set("general.alignment", U32, v))
        yield Try(f"{value}", file, f"'general.alignment' is {value}, expected a power of two", "value general.alignment")
    for kind, value in ((U64, 32), (U16, 32), (I32, 32), (STRING, "32"), (F32, 32.0), (BOOL, 1), (ARRAY, (U32, [32]))):
        file = edited(lambda f, k=kind, v=value: f.set("general.alignment", k, v))
        yield Try(f"type {kind}", file, "'general.alignment' is of type .*, expected uint32", "value general.alignment")


def tensor_type() -> Iterator[Try]:
    for number in (4, 5, 31, 32, 33, 36, 37, 38):
        file = edited(lambda f, n=number: _last(f, (256,), type=n))
        yield Try(f"removed {number}", file, f"is {number} .*was removed", "tensor type last", UnsupportedModelError)
    for number in (43, 255):
        file = edited(lambda f, n=number: _last(f, (256,), type=n))
        yield Try(f"unknown {number}", file, f"is {number}, expected", "tensor type last", UnsupportedModelError)
    for number in (-1, 256, 2**31):
        file = edited(lambda f, n=number: _last(f, (256,), type=n))
        yield Try(f"absurd {number}", file, "expected 0 to", "tensor type last")


def block() -> Iterator[Try]:
    for columns in (255, 1, 257):
        file = edited(lambda f, n=columns: _last(f, (n, 256), type=TYPE_Q4_K))
        yield Try(f"Q4_K with {columns} columns", file, f"rows of {columns}, not a multiple of Q4_K's block of 256", "tensor type last")


def past_the_end() -> Iterator[Try]:
    file = tiny_model()
    available = len(file.to_bytes()) - file.marks["data"]
    for start in (2**40, 2**64 - 32, 2**64 - 1, (available + 31) // 32 * 32):
        file = edited(lambda f, s=start: _last(f, (1,), start=s))
        yield Try(f"start {start}", file, f"'last' occupies 4 bytes from {start}", "start last")
    yield Try("size available+1", edited(lambda f: _last(f, (1,))), "'last' occupies 4 bytes", "start last")


def truncated() -> Iterator[Try]:
    file = GgufFile(tensors=[Tensor("a", (3,)), Tensor("b", (2, 4))])
    for kind in VALUE_TYPES:
        value = "text" if kind == STRING else (STRING, ["one", "", "three"]) if kind == ARRAY else 1
        file.set(f"x{kind}", kind, value)
    data = file.set("numbers", ARRAY, (U16, [1, 2, 3])).to_bytes()
    for length in range(1, len(data)):
        yield Try(f"{length} bytes", data[:length], "more|ends after|fit into|tensor data", SOMEWHERE)


def shrunk() -> Iterator[Try]:
    data = tiny_model().to_bytes() + bytes(1 << 19)  # more than is buffered at once
    for length in (0, 10, 300):
        yield Try(f"to {length} bytes", data, "shrank while it was read", SOMEWHERE, shrinks=length)


def layout() -> Iterator[Try]:
    def swap(file: GgufFile) -> None:
        starts = {tensor.name: start for tensor, start in zip(file.tensors, file._starts(), strict=True)}
        file.tensors[2].start, file.tensors[3].start = starts[file.tensors[3].name], starts[file.tensors[2].name]

    def move(by: int) -> Callable[[GgufFile], None]:
        def edit(file: GgufFile) -> None:
            file.tensors[1].start = file._starts()[1] + by

        return edit

    yield Try("misaligned", edited(move(1)), "not a multiple of 32", "start output_norm.weight")
    yield Try("overlapping", edited(move(-32)), "overlaps what comes before it", "start output_norm.weight")
    yield Try("a gap", edited(move(32)), "leaves a gap or is out of order", "start output_norm.weight")
    yield Try("out of order", edited(swap), "leaves a gap or is out of order", f"start {tiny_model().tensors[2].name}")
    yield Try("a first tensor after the start", edited(lambda f: setattr(f.tensors[0], "start", 32)), "gap", "start token_embd.weight")


def duplicates() -> Iterator[Try]:
    def keys(names: list[str]) -> bytes:
        head = GgufFile(n_keys=len(names)).to_bytes()
        return head + b"".join(string(name) + struct.pack("<IB", U8, 0) for name in names)

    yield Try("100,000 equal keys", keys(["k"] * 100_000), "key 'k' appears twice", 24 + 14)
    many = keys([f"k{n:05d}" for n in range(100_000)] + ["k00000"])
    yield Try("100,000 keys, the last of which was there", many, "key 'k00000' appears twice", 24 + 100_000 * 19)
    file = edited(lambda f: f.tensors.append(Tensor("output_norm.weight", (1,))))
    yield Try("tensor names", file, "tensor 'output_norm.weight' appears twice", "tensor output_norm.weight")


def names() -> Iterator[Try]:
    unprintable = "expected printable characters only"
    bad = {b"": "is empty", b"a\0b": unprintable, b"a\nb": unprintable, b"\xe2\x80\xae": unprintable, b"\xff": "is not valid UTF-8"}
    for name, says in bad.items():
        key = edited(lambda f, n=name: f.put(Key(n, U8, b"\0")))
        yield Try(f"key {name!r}", key, f"key [0-9]+ is .*{says}|key [0-9]+ {says}", f"key {name.decode('latin-1')}")
        tensor = edited(lambda f, n=name: f.tensors.append(Tensor(n, (1,))))
        yield Try(f"tensor {name!r}", tensor, says, f"tensor {name.decode('latin-1')}")
    for length in (64, 65, 255, 2**16):
        tensor = edited(lambda f, n=length: f.tensors.append(Tensor("t" * n, (1,))))
        yield Try(f"tensor name of {length}", tensor, f"name of tensor .* is {length} bytes, expected at most 63", f"tensor {'t' * length}")
    key = edited(lambda f: f.put(Key("k" * 2**16, U8, b"\0")))
    yield Try("key of 2^16", key, "is 65536 bytes, expected at most 65535", f"key {'k' * 2**16}")


def middle() -> Iterator[Try]:
    file = tiny_model()
    data = file.to_bytes()
    for mark, offset in file.marks.items():
        for cut in (offset, offset + 1):
            yield Try(f"after {cut - offset} bytes of {mark}", data[:cut], "more|ends after|fit into|tensor data", SOMEWHERE)


def versions() -> Iterator[Try]:
    yield Try("0", edited(lambda f: setattr(f, "version", 0)), "version is 0, expected 2 or 3", "version")
    for version in (1, 4, 0xFFFF, 2**32 - 1):
        file = edited(lambda f, v=version: setattr(f, "version", v))
        yield Try(f"{version}", file, f"version is {version}, expected 2 or 3", "version", UnsupportedModelError)
    file = edited(lambda f: setattr(f, "version", 3 << 24))
    yield Try("big-endian", file, "version: this is a big-endian file", "version", UnsupportedModelError)


def not_a_model() -> Iterator[Try]:
    for name, data in (
        ("text", b"This is not a model at all.\n"),
        ("short text", b"no"),
        ("GGML", b"lmgg" + bytes(64)),
        ("GGJT", b"tjgg" + bytes(64)),
        ("zip", b"PK\x03\x04" + bytes(64)),
        ("web page", b"<!DOCTYPE html><html></html>"),
        ("LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
        ("binary", bytes(range(256)) * 4),
        ("magic reversed", b"FUGG" + bytes(64)),
    ):
        yield Try(name, data, "magic is .*expected 'GGUF'", 0)
    yield Try("empty", b"", "the file is empty", 0)
    yield Try("half a magic", b"GG", "the file ends after 2 bytes", 0)
    yield Try("directory", _directory, "this is a directory", None, ModelMissingError)
    yield Try("missing", lambda path: path.with_name("nothing.gguf"), "there is no such file", None, ModelMissingError)
    yield Try("NUL in the path", lambda path: path.with_name("a\0.gguf"), "cannot be opened", None, ModelMissingError)
    yield Try("a name too long", lambda path: path.with_name("a" * 5000), "cannot be opened", None, ModelMissingError)
    yield Try("pipe", _pipe, "not a regular file", None, ModelMissingError)
    yield Try("device", lambda _: Path(os.devnull), "not a regular file", None, ModelMissingError)


def _directory(path: Path) -> Path:
    directory = path.with_name("directory.gguf")
    directory.mkdir(exist_ok=True)
    return directory


def _pipe(path: Path) -> Path:
    pipe = path.with_name("pipe.gguf")
    if not pipe.exists():
        os.mkfifo(pipe)
    return pipe


def header_size() -> Iterator[Try]:
    def sparse(path: Path) -> Path:
        file = GgufFile(keys=[Key("x", ARRAY, array(U8, [], 2**29))])
        file.write(path)
        os.truncate(path, 2**30)
        return path

    yield Try("half a GB in one array of a sparse file", sparse, "too far for a header", 24 + 8 + 1 + 4 + 12)
