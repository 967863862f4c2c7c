"""Small GGUF files with random weights in any format, made in a moment: what the core's tests run on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

FORMATS = (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K)

# Where a block keeps its float16 scales; random bytes there would be huge or NaN.
_SCALE_OFFSETS = {kind: (208,) if kind is Type.Q6_K else (0, 2) for kind in FORMATS} | dict.fromkeys(
    (Type.Q4_0, Type.Q5_0, Type.Q8_0), (0,)
)
# Roughly what makes a random row of weights have values of a few hundredths.
_SCALE = {Type.Q4_K: 2e-4, Type.Q5_K: 1e-4, Type.Q6_K: 5e-5, Type.Q8_0: 5e-4}


@dataclass
class Shape:
    """Sizes of a tiny model; the odd ones exercise padding: rows that are no multiple of 16, columns that are none of 64."""

    architecture: str = "qwen2"
    layers: int = 2
    embedding: int = 256
    feed_forward: int = 512
    heads: int = 4
    kv_heads: int = 2
    vocab: int = 300
    tied: bool = False
    types: tuple[Type, ...] = FORMATS
    biases: bool = True
    extra: dict[str, float] = field(default_factory=dict)


def random_blocks(rng: np.random.Generator, kind: Type, rows: int, columns: int) -> NDArray[np.uint8]:
    """[rows, bytes]: every bit pattern of the quants, sensible scales."""
    block, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    n_blocks = columns // block
    data = rng.integers(0, 256, (rows, n_blocks, n_bytes), dtype=np.uint8)
    for offset in _SCALE_OFFSETS[kind]:
        scales = (rng.uniform(-1, 1, (rows, n_blocks)) * _SCALE.get(kind, 2e-3)).astype(np.float16)
        data[:, :, offset : offset + 2] = scales.view(np.uint8).reshape(rows, n_blocks, 2)
    return data.reshape(rows, n_blocks * n_bytes)


def _write_metadata(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_block_count(shape.layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(shape.vocab)
    for key, value in shape.extra.items():
        add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
        add(f"{shape.architecture}.{key}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(["t1t2" if token == 3 else f"t{token}" for token in range(shape.vocab)])
    writer.add_token_types([gguf.TokenType.CONTROL if token == shape.vocab - 1 else gguf.TokenType.NORMAL for token in range(shape.vocab)])
    writer.add_token_merges(["t1 t2"])


def write_model(path: Path, shape: Shape, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Write the file; returns each matrix as gguf's reference dequantises it."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, shape.architecture)
    _write_metadata(writer, shape)
    reference: dict[str, NDArray[np.float32]] = {}
    turn = 0

    def matrix(name: str, columns: int, rows: int) -> None:
        nonlocal turn
        kind = shape.types[turn % len(shape.types)]
        turn += 1
        data = random_blocks(rng, kind, rows, columns)
        reference[name] = gguf.dequantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)

    def vector(name: str, n: int, mean: float) -> None:
        writer.add_tensor(name, (mean + 0.1 * rng.standard_normal(n)).astype(np.float32))

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
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return reference
