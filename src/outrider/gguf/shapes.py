"""Which tensors a llama, qwen2 or qwen3 model has, and of which shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from outrider.gguf.cursor import INCOMPLETE, MALFORMED, shown
from outrider.gguf.header import Header
from outrider.gguf.tensor import TensorInfo


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes that shapes are made of.

    Attributes:
        n_layers: transformer blocks.
        embedding, vocab, ff: widths of the residual stream, the output and the feed-forward part.
        query, key, value: widths of all heads together.
        attention: width of what attention hands to its output projection.
        head: width of one head.
        rope_pairs: rotated pairs of a head.
        experts: 0 for a dense model.
    """

    n_layers: int
    embedding: int
    vocab: int
    query: int
    key: int
    value: int
    attention: int
    head: int
    ff: int
    rope_pairs: int
    experts: int

    @property
    def fused(self) -> int:
        return self.query + self.key + self.value


# Fields of Dimensions, row length first.
_OUTER: Final = {
    "token_embd.weight": ("embedding", "vocab"),
    "output_norm.weight": ("embedding",),
    "output.weight": ("embedding", "vocab"),
    "output.bias": ("vocab",),
    "rope_freqs.weight": ("rope_pairs",),
    "rope_factors_long.weight": ("rope_pairs",),
    "rope_factors_short.weight": ("rope_pairs",),
}
_REQUIRED_OUTER: Final = ("token_embd.weight", "output_norm.weight")

_BLOCK: Final = {
    "attn_norm.weight": ("embedding",),
    "attn_q.weight": ("embedding", "query"),
    "attn_q.bias": ("query",),
    "attn_q_norm.weight": ("head",),
    "attn_k.weight": ("embedding", "key"),
    "attn_k.bias": ("key",),
    "attn_k_norm.weight": ("head",),
    "attn_v.weight": ("embedding", "value"),
    "attn_v.bias": ("value",),
    "attn_qkv.weight": ("embedding", "fused"),
    "attn_qkv.bias": ("fused",),
    "attn_output.weight": ("attention", "embedding"),
    "attn_output.bias": ("embedding",),
    "ffn_norm.weight": ("embedding",),
    "ffn_gate.weight": ("embedding", "ff"),
    "ffn_gate.bias": ("ff",),
    "ffn_up.weight": ("embedding", "ff"),
    "ffn_up.bias": ("ff",),
    "ffn_down.weight": ("ff", "embedding"),
    "ffn_down.bias": ("embedding",),
    "ffn_gate_inp.weight": ("embedding", "experts"),
    "ffn_gate_exps.weight": ("embedding", "ff", "experts"),
    "ffn_up_exps.weight": ("embedding", "ff", "experts"),
    "ffn_down_exps.weight": ("ff", "embedding", "experts"),
    "rope_freqs.weight": ("rope_pairs",),
}
_REQUIRED_IN_BLOCK: Final = ("attn_norm.weight", "attn_output.weight", "ffn_norm.weight")
_SEPARATE_ATTENTION: Final = ("attn_q.weight", "attn_k.weight", "attn_v.weight")
_DENSE: Final = ("ffn_gate.weight", "ffn_up.weight", "ffn_down.weight")
_QWEN3: Final = ("attn_q_norm.weight", "attn_k_norm.weight")

_BLOCK_NAME: Final = re.compile(r"blk\.(0|[1-9][0-9]*)\.(.+)")


def check_shapes(header: Header, tensors: Iterable[TensorInfo], dimensions: Dimensions, *, is_complete: bool) -> None:
    """Check every known tensor's shape, and that none is missing or belongs to a layer that isn't there.

    Args:
        header: names the architecture and, in errors, the file.
        tensors: of the model. Names that are not known are left alone: their sizes were checked when they were read.
        dimensions: what the hyper-parameters promise.
        is_complete: whether these are all tensors of the model, so that a missing one is an error.

    Raises:
        ModelFileError: at the tensor's entry in the header; without an offset where a tensor is missing.
    """
    names = set()
    for tensor in tensors:
        _check_shape(header, tensor, dimensions)
        names.add(tensor.name)
    if is_complete:
        _check_presence(header, names, dimensions)


def _check_shape(header: Header, tensor: TensorInfo, dimensions: Dimensions) -> None:
    expected = _OUTER.get(tensor.name)
    match = _BLOCK_NAME.fullmatch(tensor.name)
    if match:
        if int(match[1]) >= dimensions.n_layers:
            message = f"tensor {shown(tensor.name)} belongs to layer {match[1]}, but the model has {dimensions.n_layers}"
            raise header.error(message, MALFORMED, tensor.info_offset)
        expected = _BLOCK.get(match[2])
    if expected is None:
        return
    shape = tuple(getattr(dimensions, name) for name in expected)
    if _without_ones(tensor.shape) != _without_ones(shape):  # ggml doesn't tell [576] from [576, 1]
        message = f"tensor {shown(tensor.name)} has shape {list(tensor.shape)}, expected {list(shape)} ({' x '.join(expected)})"
        raise header.error(message, MALFORMED, tensor.info_offset)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    while shape and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _check_presence(header: Header, names: set[str], dimensions: Dimensions) -> None:
    required = list(_REQUIRED_OUTER)
    is_qwen3 = header.string("general.architecture") == "qwen3"
    for layer in range(dimensions.n_layers):
        block = f"blk.{layer}."
        kinds = _REQUIRED_IN_BLOCK + (_QWEN3 if is_qwen3 else ())
        if f"{block}attn_qkv.weight" not in names:
            kinds += _SEPARATE_ATTENTION
        if not dimensions.experts:
            kinds += _DENSE
        required += [block + kind for kind in kinds]
    missing = next((name for name in required if name not in names), None)
    if missing is not None:
        raise header.error(f"tensor {shown(missing)} is missing", INCOMPLETE, None)
