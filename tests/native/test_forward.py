"""The forward pass against a plain float64 implementation of the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from outrider.model import Segment
from tests.native.conftest import Loader
from tests.native.tiny_models import FLOATS, Shape, write_model

Array = NDArray[np.float64]


def norm(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def rotate(x: Array, *, pairwise: bool) -> Array:
    """Rotary positions over [tokens, heads, size]."""
    size = x.shape[-1]
    angles = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = (x[..., 0::2], x[..., 1::2]) if pairwise else (x[..., : size // 2], x[..., size // 2 :])
    out = np.empty_like(x)
    if pairwise:
        out[..., 0::2], out[..., 1::2] = a * c - b * s, a * s + b * c
    else:
        out[..., : size // 2], out[..., size // 2 :] = a * c - b * s, a * s + b * c
    return out


def reference_logits(weights: dict[str, NDArray[np.float32]], shape: Shape, tokens: list[int], window: int = 0) -> Array:
    """Logits [tokens, vocab] by the textbook; each row sees its last `window` positions, or all for 0."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    size, n, pairwise = shape.embedding // shape.heads, len(tokens), shape.architecture == "llama"
    x = w["token_embd.weight"][tokens]
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        h = norm(x, w[at + "attn_norm.weight"])
        q, k, v = (h @ w[f"{at}attn_{name}.weight"].T + w.get(f"{at}attn_{name}.bias", 0.0) for name in "qkv")
        q, k, v = q.reshape(n, -1, size), k.reshape(n, -1, size), v.reshape(n, -1, size)
        if shape.architecture == "qwen3":
            q, k = norm(q, w[at + "attn_q_norm.weight"]), norm(k, w[at + "attn_k_norm.weight"])
        q, k = rotate(q, pairwise=pairwise), rotate(k, pairwise=pairwise)
        k, v = (np.repeat(each, shape.heads // shape.kv_heads, axis=1) for each in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(size)
        scores[:, np.triu(np.ones((n, n), dtype=bool), 1)] = -np.inf
        if window:
            scores[:, np.tril(np.ones((n, n), dtype=bool), -window)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", weights, v).reshape(n, -1) @ w[at + "attn_output.weight"].T
        h = norm(x, w[at + "ffn_norm.weight"])
        gate = h @ w[at + "ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[at + "ffn_up.weight"].T)) @ w[at + "ffn_down.weight"].T
    head = w["token_embd.weight"] if shape.tied else w["output.weight"]
    return norm(x, w["output_norm.weight"]) @ head.T


@pytest.mark.parametrize(
    "shape",
    [Shape(), Shape(architecture="llama", biases=False, tied=True), Shape(architecture="qwen3", biases=False)],
    ids=lambda s: s.architecture,
)
def test_logits_are_the_models(tmp_path: Path, loaded: Loader, shape: Shape) -> None:
    weights = write_model(tmp_path / "m.gguf", shape)
    tokens = [int(token) for token in np.random.default_rng(3).integers(0, shape.vocab, 24)]
    expected = reference_logits(weights, shape, tokens)
    model = loaded(tmp_path / "m.gguf")
    got = model.evaluate([Segment(model.open(), tuple(tokens))]).rows(range(len(tokens)))
    # Activations are int8, which costs some percent of the spread in random weights; a wrong rotation or bias costs all of it.
    assert np.sqrt(((got - expected) ** 2).mean()) < 0.05 * np.std(expected)


@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("vectors", FLOATS, ids=lambda kind: f"{kind.name} vectors")
def test_float_models_are_exact_but_for_rounding(tmp_path: Path, loaded: Loader, kind: Type, vectors: Type) -> None:
    """Rows of 80 and 208 columns, which no quantised format could have."""
    shape = Shape(embedding=80, feed_forward=208, heads=5, kv_heads=1, types=(kind,), vectors=vectors)
    weights = write_model(tmp_path / "m.gguf", shape)
    tokens = [int(token) for token in np.random.default_rng(3).integers(0, shape.vocab, 24)]
    expected = reference_logits(weights, shape, tokens)
    model = loaded(tmp_path / "m.gguf")
    got = model.evaluate([Segment(model.open(), tuple(tokens))]).rows(range(len(tokens)))
    # Keys and values are kept as f16, with 11 bits.
    assert np.abs(got - expected).max() < 2e-3 * np.std(expected)
