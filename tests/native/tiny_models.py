"""Small GGUF files with random weights in any format, made in a moment: what the core's tests run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from tests.model_files import Tensor, write_gguf

QUANTISED = (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K)
FLOATS = (Type.F32, Type.F16, Type.BF16)
FORMATS = QUANTISED + FLOATS

Blocks: TypeAlias = "Callable[[np.random.Generator, Type, int, int], NDArray[np.uint8]]"
"""Makes the bytes of a matrix, [rows, bytes], from its type, rows and columns."""

# Where a block keeps its float16 scales; random bytes there would be huge or NaN.
_SCALE_OFFSETS = {kind: (208,) if kind is Type.Q6_K else (0, 2) for kind in QUANTISED} | dict.fromkeys(
    (Type.Q4_0, Type.Q5_0, Type.Q8_0), (0,)
)
# Roughly what makes a random row of weights have values of a few hundredths.
_SCALE = {Type.Q4_K: 2e-4, Type.Q5_K: 1e-4, Type.Q6_K: 5e-5, Type.Q8_0: 5e-4}


@dataclass
class Shape:
    """Sizes of a tiny model; the odd ones exercise padding: rows that are no multiple of 16, columns that are none of 64.

    Attributes:
        types: of the matrices, which take them in turn.
        vectors: type of norms and biases.
        metadata: more keys, without the architecture before them.
        tensors: more tensors.
    """

    architecture: str = "qwen2"
    layers: int = 2
    embedding: int = 256
    feed_forward: int = 512
    heads: int = 4
    kv_heads: int = 2
    vocab: int = 300
    tied: bool = False
    types: tuple[Type, ...] = FORMATS
    vectors: Type = Type.F32
    biases: bool = True
    metadata: dict[str, str | int | float] = field(default_factory=dict)
    tensors: dict[str, NDArray[np.float32]] = field(default_factory=dict)


def random_blocks(rng: np.random.Generator, kind: Type, rows: int, columns: int) -> NDArray[np.uint8]:
    """[rows, bytes]: every bit pattern of the quants, sensible scales; floats of a few hundredths."""
    if kind in FLOATS:
        values = (0.05 * rng.standard_normal((rows, columns))).astype(np.float32)
        return gguf.quantize(values, kind).view(np.uint8).reshape(rows, -1)
    block, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    n_blocks = columns // block
    data = rng.integers(0, 256, (rows, n_blocks, n_bytes), dtype=np.uint8)
    for offset in _SCALE_OFFSETS[kind]:
        scales = (rng.uniform(-1, 1, (rows, n_blocks)) * _SCALE.get(kind, 2e-3)).astype(np.float16)
        data[:, :, offset : offset + 2] = scales.view(np.uint8).reshape(rows, n_blocks, 2)
    return data.reshape(rows, n_blocks * n_bytes)


def odd_floats(rng: np.random.Generator, kind: Type, rows: int, columns: int) -> NDArray[np.uint8]:
    """[rows, bytes] of bit patterns in turn, of 16 bits all if there is room; random ones of 32 bits."""
    if kind is Type.F32:
        return rng.integers(0, 256, (rows, 4 * columns), dtype=np.uint8)
    return np.resize(np.arange(1 << 16, dtype=np.uint16), (rows, columns)).view(np.uint8)


def _keys(shape: Shape) -> dict[str, Any]:
    return {
        ".block_count": shape.layers,
        ".context_length": 2048,
        ".embedding_length": shape.embedding,
        ".feed_forward_length": shape.feed_forward,
        ".attention.head_count": shape.heads,
        ".attention.head_count_kv": shape.kv_heads,
        ".attention.layer_norm_rms_epsilon": 1e-6,
        ".rope.freq_base": 10000.0,
        ".vocab_size": shape.vocab,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": ["t1t2" if token == 3 else f"t{token}" for token in range(shape.vocab)],
        "tokenizer.ggml.token_type": [*[int(gguf.TokenType.NORMAL)] * (shape.vocab - 1), int(gguf.TokenType.CONTROL)],
        "tokenizer.ggml.merges": ["t1 t2"],
    } | {f".{key}": value for key, value in shape.metadata.items()}


def write_model(path: Path, shape: Shape, seed: int = 0, blocks: Blocks = random_blocks) -> dict[str, NDArray[np.float32]]:
    """Write the file; returns each matrix as gguf's reference dequantises it, and the other tensors as float32 too."""
    rng = np.random.default_rng(seed)
    tensors: list[Tensor] = []
    reference: dict[str, NDArray[np.float32]] = {}
    turn = 0

    def matrix(name: str, columns: int, rows: int) -> None:
        nonlocal turn
        kind = shape.types[turn % len(shape.types)]
        turn += 1
        data = blocks(rng, kind, rows, columns)
        reference[name] = gguf.dequantize(data, kind)
        tensors.append((name, data, kind))

    def vector(name: str, n: int, mean: float) -> None:
        values = (mean + 0.1 * rng.standard_normal(n)).astype(np.float32)
        data = gguf.quantize(values, shape.vectors).view(np.uint8)
        reference[name] = gguf.dequantize(data, shape.vectors)
        tensors.append((name, data, shape.vectors))

    head = shape.embedding // shape.heads
    matrix("token_embd.weight", shape.embedding, shape.vocab)
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        vector(at + "attn_norm.weight", shape.embedding, 1.0)
        for name, rows in (("q", shape.heads * head), ("k", shape.kv_heads * head), ("v", shape.kv_heads * head)):
            matrix(f"{at}attn_{name}.weight", shape.embedding, rows)
            if shape.biases:
                vector(f"{at}attn_{name}.bias", rows, 0.0)
        if shape.architecture == "qwen3":
            vector(at + "attn_q_norm.weight", head, 1.0)
            vector(at + "attn_k_norm.weight", head, 1.0)
        matrix(at + "attn_output.weight", shape.heads * head, shape.embedding)
        vector(at + "ffn_norm.weight", shape.embedding, 1.0)
        matrix(at + "ffn_gate.weight", shape.embedding, shape.feed_forward)
        matrix(at + "ffn_up.weight", shape.embedding, shape.feed_forward)
        matrix(at + "ffn_down.weight", shape.feed_forward, shape.embedding)
    vector("output_norm.weight", shape.embedding, 1.0)
    if not shape.tied:
        matrix("output.weight", shape.embedding, shape.vocab)
    tensors.extend((name, values, None) for name, values in shape.tensors.items())
    write_gguf(path, shape.architecture, _keys(shape), tensors)
    return reference
