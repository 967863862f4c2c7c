"""What a pass costs at least: the bytes that it must read, and the multiplications that it must do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from outrider.bench.plan import PassShape
from outrider.gguf import TENSOR_TYPES, HyperParameters, TensorInfo

_EMBEDDING = "token_embd.weight"
_HEAD = "output.weight"


@dataclass(frozen=True, slots=True)
class PassCost:
    """The least that any engine has to do for a pass of a dense model.

    Attributes:
        weight_bytes: every matrix once, as the file stores it; the embedding only where it is the head too.
        cache_bytes_per_position: keys and values of one position over all layers, in the cache's types.
        layer_weights: weights of the layers' matrices, each of them one multiplication for each row.
        head_weights: weights of the head, one multiplication for each row whose logits are wanted.
    """

    weight_bytes: int
    cache_bytes_per_position: float
    layer_weights: int
    head_weights: int

    def n_bytes(self, context: int) -> float:
        """Bytes that a pass behind `context` positions reads from memory; a few rows of activations are nothing beside them."""
        return self.weight_bytes + self.cache_bytes_per_position * context

    def n_macs(self, shape: PassShape) -> int:
        """Multiplications of weights with activations. Attention is not in it: engines compute it in floating point."""
        return self.layer_weights * shape.n_rows + self.head_weights * shape.n_outputs


def pass_cost(parameters: HyperParameters, tensors: Iterable[TensorInfo], key_type: str, value_type: str) -> PassCost | None:
    """The cost of a model's passes; None for mixtures of experts, which don't read all of their weights.

    Args:
        parameters: of the model.
        tensors: its table.
        key_type, value_type: of the cache, as `-ctk` and `-ctv` say it.
    """
    if parameters.n_experts or not parameters.n_layers or not parameters.n_kv_heads:
        return None
    matrices = {tensor.name: tensor for tensor in tensors if len(tensor.shape) > 1}
    head = matrices.get(_HEAD) or matrices.get(_EMBEDDING)
    if head is None:
        return None
    layers = [tensor for name, tensor in matrices.items() if name not in (_HEAD, _EMBEDDING)]
    per_head = parameters.head_size * _value_bytes(key_type) + parameters.value_size * _value_bytes(value_type)
    return PassCost(
        weight_bytes=head.n_bytes + sum(tensor.n_bytes for tensor in layers),
        cache_bytes_per_position=parameters.n_layers * parameters.n_kv_heads * per_head,
        layer_weights=sum(tensor.n_elements for tensor in layers),
        head_weights=head.n_elements,
    )


def _value_bytes(word: str) -> float:
    kind = next(kind for kind in TENSOR_TYPES.values() if kind.name == word.upper())
    return kind.block_bytes / kind.block_size
