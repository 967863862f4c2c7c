"""A small writer of GGUF files for tests, sound ones and every kind of broken ones.

Nothing here checks anything: counts, lengths, types and offsets can all be made to lie. `GgufFile.marks` tells where each
field went, so that a test can say at which byte an error has to point.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
VALUE_TYPES = (U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64)
LETTERS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}

TYPE_F32, TYPE_F16, TYPE_Q4_K = 0, 1, 12
BLOCKS = {TYPE_F32: (1, 4), TYPE_F16: (1, 2), 2: (32, 18), 8: (32, 34), TYPE_Q4_K: (256, 144)}  # what the tests write: size, bytes


def string(text: str | bytes, length: int | None = None) -> bytes:
    """A string field; `length` lies about it."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data) if length is None else length) + data


def scalar(kind: int, value: Any) -> bytes:
    """The bytes of a single value, without its type."""
    return string(value) if kind == STRING else struct.pack("<" + LETTERS[kind], value)


def array(kind: int, values: Sequence[Any], count: int | None = None) -> bytes:
    """The bytes of an array, with its element type; `count` lies about its length."""
    head = struct.pack("<IQ", kind, len(values) if count is None else count)
    return head + b"".join(scalar(kind, value) for value in values)


@dataclass
class Key:
    """A key and its value. `payload` is whatever follows the type."""

    name: str | bytes
    type: int
    payload: bytes
    length: int | None = None


@dataclass
class Tensor:
    """A tensor's entry and its bytes; None means what is right."""

    name: str | bytes
    shape: tuple[int, ...]
    type: int = TYPE_F32
    n_dims: int | None = None
    start: int | None = None
    n_bytes: int | None = None
    length: int | None = None

    @property
    def size(self) -> int:
        if self.n_bytes is not None:
            return self.n_bytes
        block, block_bytes = BLOCKS.get(self.type, (1, 0))
        n_elements = 1
        for dimension in self.shape:
            n_elements *= dimension
        return n_elements // block * block_bytes


@dataclass
class GgufFile:
    """A file in parts. The last tensor is not padded, so that no byte can be cut off unnoticed."""

    keys: list[Key] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    magic: bytes = b"GGUF"
    version: int = 3
    n_tensors: int | None = None
    n_keys: int | None = None
    alignment: int = 32
    marks: dict[str, int] = field(default_factory=dict)

    def set(self, name: str, kind: int, value: Any) -> GgufFile:
        """Add or replace a key. An array's value is (element type, values)."""
        payload = array(*value) if kind == ARRAY else scalar(kind, value)
        return self.put(Key(name, kind, payload))

    def put(self, key: Key) -> GgufFile:
        """Add or replace a key, given with its bytes."""
        for index, old in enumerate(self.keys):
            if old.name == key.name:
                self.keys[index] = key
                return self
        self.keys.append(key)
        return self

    def drop(self, name: str) -> GgufFile:
        """Remove a key, or a tensor."""
        self.keys = [key for key in self.keys if key.name != name]
        self.tensors = [tensor for tensor in self.tensors if tensor.name != name]
        return self

    def tensor(self, name: str) -> Tensor:
        return next(tensor for tensor in self.tensors if tensor.name == name)

    def to_bytes(self) -> bytes:
        """The file; fills `marks`: "version", "key NAME", "value NAME", "tensor NAME", "dims NAME", "dim 0 NAME", ..."""
        out = bytearray(self.magic)
        self._write(out, "version", "<I", self.version)
        self._write(out, "n_tensors", "<Q", len(self.tensors) if self.n_tensors is None else self.n_tensors)
        self._write(out, "n_keys", "<Q", len(self.keys) if self.n_keys is None else self.n_keys)
        for key in self.keys:
            self.marks[f"key {_text(key.name)}"] = len(out)
            out += string(key.name, key.length)
            self._write(out, f"type {_text(key.name)}", "<I", key.type)
            self.marks[f"value {_text(key.name)}"] = len(out)
            out += key.payload
        starts = self._starts()
        for tensor, start in zip(self.tensors, starts, strict=True):
            self._write_entry(out, tensor, start)
        if not self.tensors:
            return bytes(out)
        data = len(out) + -len(out) % self.alignment
        self.marks["data"] = data
        for tensor, start in zip(self.tensors, starts, strict=True):
            if tensor.start is None:
                out += bytes(data + start - len(out)) + bytes(tensor.size)
        return bytes(out)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.to_bytes())
        return path

    def _starts(self) -> list[int]:
        starts: list[int] = []
        position = 0
        for tensor in self.tensors:
            starts.append(position)
            position += tensor.size + -tensor.size % self.alignment
        return starts

    def _write(self, out: bytearray, mark: str, form: str, value: int) -> None:
        self.marks[mark] = len(out)
        out += struct.pack(form, value)

    def _write_entry(self, out: bytearray, tensor: Tensor, start: int) -> None:
        name = _text(tensor.name)
        self.marks[f"tensor {name}"] = len(out)
        out += string(tensor.name, tensor.length)
        self._write(out, f"dims {name}", "<I", len(tensor.shape) if tensor.n_dims is None else tensor.n_dims)
        for axis, dimension in enumerate(tensor.shape):
            self._write(out, f"dim {axis} {name}", "<Q", dimension)
        self._write(out, f"tensor type {name}", "<I", tensor.type & 0xFFFFFFFF)
        self._write(out, f"start {name}", "<Q", start if tensor.start is None else tensor.start)


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("latin-1")


TINY_TOKENS = ("a", "b", "c", "ab", "abc", "Ġ", "Ġa", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "[PAD10]", "[PAD11]")
TINY_TYPES = (1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 5, 5)
TINY_MERGES = ("a b", "ab c", "Ġ a")
TINY_TEMPLATE = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"


def tiny_vocabulary(file: GgufFile) -> GgufFile:
    """Add a byte-pair vocabulary of twelve entries."""
    prefix = "tokenizer.ggml."
    file.set(prefix + "model", STRING, "gpt2")
    file.set(prefix + "pre", STRING, "qwen2")
    file.set(prefix + "tokens", ARRAY, (STRING, TINY_TOKENS))
    file.set(prefix + "token_type", ARRAY, (I32, TINY_TYPES))
    file.set(prefix + "merges", ARRAY, (STRING, TINY_MERGES))
    file.set(prefix + "bos_token_id", U32, 7)
    file.set(prefix + "eos_token_id", U32, 9)
    file.set(prefix + "padding_token_id", U32, 7)
    file.set(prefix + "add_bos_token", BOOL, False)
    return file.set("tokenizer.chat_template", STRING, TINY_TEMPLATE)


def tiny_model(architecture: str = "qwen2", n_layers: int = 1) -> GgufFile:
    """A complete model of width 4, with two heads of size 2, one of them for keys and values, and twelve tokens."""
    file = GgufFile()
    file.set("general.architecture", STRING, architecture)
    file.set("general.name", STRING, "Tiny")
    sizes = {"block_count": n_layers, "context_length": 64, "embedding_length": 4, "feed_forward_length": 6}
    heads = {"attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 2}
    for name, value in (sizes | heads).items():
        file.set(f"{architecture}.{name}", U32, value)
    file.set(f"{architecture}.attention.layer_norm_rms_epsilon", F32, 1e-6)
    file.set(f"{architecture}.rope.freq_base", F32, 10000.0)
    tiny_vocabulary(file)
    file.tensors = [Tensor("token_embd.weight", (4, 12)), Tensor("output_norm.weight", (4,))]
    for layer in range(n_layers):
        file.tensors += tiny_block(architecture, layer)
    return file


def tiny_block(architecture: str, layer: int) -> list[Tensor]:
    """The tensors of one layer of `tiny_model`."""
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (4,),
        "attn_q.weight": (4, 4),
        "attn_k.weight": (4, 2),
        "attn_v.weight": (4, 2),
        "attn_output.weight": (4, 4),
        "ffn_norm.weight": (4,),
        "ffn_gate.weight": (4, 6),
        "ffn_up.weight": (4, 6),
        "ffn_down.weight": (6, 4),
    }
    if architecture == "qwen2":
        shapes |= {"attn_q.bias": (4,), "attn_k.bias": (2,), "attn_v.bias": (2,)}
    if architecture == "qwen3":
        shapes |= {"attn_q_norm.weight": (2,), "attn_k_norm.weight": (2,)}
    return [Tensor(f"blk.{layer}.{name}", shape) for name, shape in shapes.items()]
