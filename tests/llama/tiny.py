"""Model files of a few hundred kilobytes with random weights, so that the adapter runs in tests without any download."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.model_files import Tensor, byte_letters, write_gguf

BOS, EOS = 256, 257


@dataclass
class TinyModel:
    """What to write. Every size can be spoilt on purpose.

    Attributes:
        arch: llama, gemma2 (sliding window) or mamba (recurrent).
        metadata: replaces or adds keys after everything else; a value of None leaves the key out.
        drop: names of tensors that are left out.
        reshape: tensor name to the shape that is written instead.
    """

    arch: str = "llama"
    n_layers: int = 2
    n_embd: int = 64
    n_heads: int = 2
    n_kv_heads: int = 1
    n_context: int = 512
    seed: int = 0
    tokens: list[str] = field(default_factory=lambda: [*byte_letters(), "<s>", "</s>", "ab", "<|end|>"])
    types: list[int] = field(default_factory=lambda: [1] * 256 + [3, 3, 1, 3])
    metadata: dict[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    reshape: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        random = np.random.default_rng(self.seed)
        tensors: list[Tensor] = [
            (name, self._values(name, self.reshape.get(name, shape), random), None)
            for name, shape in self._shapes().items()
            if name not in self.drop
        ]
        return write_gguf(path, self.arch, self._keys(), tensors)

    def _values(self, name: str, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.float32]:
        if name.endswith("norm.weight"):
            return np.ones(shape, dtype=np.float32)
        if name.endswith("ssm_a"):
            return -np.abs(random.standard_normal(shape)).astype(np.float32)
        scale = 1.0 if name == "token_embd.weight" else 2.0 / np.sqrt(shape[-1])
        return (random.standard_normal(shape) * scale).astype(np.float32)

    def _keys(self) -> dict[str, Any]:
        keys: dict[str, Any] = {
            "block_count": self.n_layers,
            "context_length": self.n_context,
            "embedding_length": self.n_embd,
            "feed_forward_length": 2 * self.n_embd,
            "attention.head_count": self.n_heads,
            "attention.head_count_kv": self.n_kv_heads,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.dimension_count": self.n_embd // self.n_heads if self.n_heads else 0,
        }
        if self.arch == "gemma2":
            head = self.n_embd // self.n_heads
            keys |= {"attention.sliding_window": 16, "attention.key_length": head, "attention.value_length": head}
        if self.arch == "mamba":
            keys |= {"ssm.conv_kernel": 4, "ssm.inner_size": 2 * self.n_embd, "ssm.state_size": 8, "ssm.time_step_rank": 4}
            keys |= {"attention.head_count": 0, "attention.head_count_kv": 0, "feed_forward_length": 0}
        keys = {f".{key}": value for key, value in keys.items()}
        keys |= {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": self.tokens,
            "tokenizer.ggml.token_type": self.types,
            "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.bos_token_id": BOS,
            "tokenizer.ggml.eos_token_id": EOS,
            "tokenizer.ggml.add_bos_token": True,
        }
        return {
            key.removeprefix(self.arch) if key.startswith(f"{self.arch}.") else key: value for key, value in (keys | self.metadata).items()
        }

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n, n_vocab = self.n_embd, len(self.tokens)
        shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (n_vocab, n), "output_norm.weight": (n,)}
        if self.arch != "gemma2":
            shapes["output.weight"] = (n_vocab, n)
        for layer in range(self.n_layers):
            parts = self._mamba_block() if self.arch == "mamba" else self._attention_block()
            shapes |= {f"blk.{layer}.{name}": shape for name, shape in parts.items()}
        return shapes

    def _attention_block(self) -> dict[str, tuple[int, ...]]:
        n = self.n_embd
        n_kv = n * self.n_kv_heads // self.n_heads if self.n_heads else n
        block: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (n,),
            "attn_q.weight": (n, n),
            "attn_k.weight": (n_kv, n),
            "attn_v.weight": (n_kv, n),
            "attn_output.weight": (n, n),
            "ffn_norm.weight": (n,),
            "ffn_gate.weight": (2 * n, n),
            "ffn_up.weight": (2 * n, n),
            "ffn_down.weight": (n, 2 * n),
        }
        if self.arch == "gemma2":
            block |= {"post_attention_norm.weight": (n,), "post_ffw_norm.weight": (n,)}
        return block

    def _mamba_block(self) -> dict[str, tuple[int, ...]]:
        n, inner = self.n_embd, 2 * self.n_embd
        return {
            "attn_norm.weight": (n,),
            "ssm_in.weight": (2 * inner, n),
            "ssm_conv1d.weight": (inner, 4),
            "ssm_conv1d.bias": (inner,),
            "ssm_x.weight": (4 + 2 * 8, inner),
            "ssm_dt.weight": (inner, 4),
            "ssm_dt.bias": (inner,),
            "ssm_a": (inner, 8),
            "ssm_d": (inner,),
            "ssm_out.weight": (n, inner),
        }
