"""The numbers that shape a model, range-checked and checked against its tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, cast

from outrider.gguf.cursor import MALFORMED, shown
from outrider.gguf.header import Header
from outrider.gguf.shapes import Dimensions, check_shapes
from outrider.gguf.tensor import TensorInfo
from outrider.gguf.value import ValueType

CHECKED_ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")
"""Architectures whose keys are all required, and whose tensors are checked one by one; of others only ranges and sizes are."""

_LIMITS: Final = {
    # key: largest sensible value
    "block_count": 512,  # llama.cpp's own limit
    "context_length": 1 << 26,
    "embedding_length": 1 << 20,
    "feed_forward_length": 1 << 24,
    "attention.head_count": 1 << 16,
    "attention.head_count_kv": 1 << 16,
    "attention.key_length": 1 << 13,
    "attention.value_length": 1 << 13,
    "rope.dimension_count": 1 << 13,
    "vocab_size": 1 << 24,
    "expert_count": 1024,
    "expert_used_count": 1024,
}
_ARCHITECTURE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_SMALLEST_POSITIVE: Final = 1e-30
_MAX_ROPE_BASE: Final = 1e12
_MAX_ROPE_FACTOR: Final = 1e6

Scaling = Literal["none", "linear", "yarn", "longrope"]
_SCALINGS: Final = ("none", "linear", "yarn", "longrope")


@dataclass(frozen=True, slots=True)
class YarnParameters:
    """What yarn scaling needs beyond a factor; the defaults are llama.cpp's.

    Attributes:
        extrapolation: how much of its trained frequency a fast pair keeps, 0 to 1.
        beta_fast, beta_slow: rotations over the original context above which a pair counts as fast, and below which as slow; > 0.
        log_multiplier: takes back part of the magnitude that yarn adds; 0 for none.
        attention_factor: the file's own magnitude, > 0; llama.cpp reads it and then computes another in its place.
    """

    extrapolation: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    log_multiplier: float = 0.0
    attention_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class RopeParameters:
    """Rotary position embedding.

    Attributes:
        base: wavelength base, > 0.
        n_dims: leading dimensions of a head that are rotated; even for the checked architectures.
        scaling: how positions are stretched beyond the training length.
        factor: by how much, > 0; 1 without scaling.
        attention_factor: extra factor on rotated queries and keys, > 0.
        n_context_original: tokens that the unscaled model was trained on.
        yarn: for yarn scaling.
    """

    base: float
    n_dims: int
    scaling: Scaling
    factor: float
    attention_factor: float
    n_context_original: int
    yarn: YarnParameters | None = None


@dataclass(frozen=True, slots=True)
class HyperParameters:
    """What a file says about its model.

    Every number is at least 1 for a checked architecture. For others a number that the file doesn't have is 0, and one that
    differs from layer to layer is the largest.

    Attributes:
        architecture: such as "qwen2"; prefix of its keys.
        name: the model's own name, "" if it has none. Untrusted text: it may hold anything.
        n_layers: transformer blocks.
        n_embedding: width of the residual stream.
        n_heads, n_kv_heads: attention heads, and those of keys and values.
        head_size, value_size: width of a query and key head, and of a value head.
        n_ff: width of the feed-forward part.
        n_context_train: tokens that the model was trained to attend to.
        n_vocab: rows of the embedding.
        n_experts, n_experts_used: 0 for a dense model.
        rms_epsilon: what RMS normalisation adds.
        rope: rotary positions.
        n_parameters: elements of all tensors.
    """

    architecture: str
    name: str
    n_layers: int
    n_embedding: int
    n_heads: int
    n_kv_heads: int
    head_size: int
    value_size: int
    n_ff: int
    n_context_train: int
    n_vocab: int
    n_experts: int
    n_experts_used: int
    rms_epsilon: float
    rope: RopeParameters
    n_parameters: int


def read_hyper_parameters(header: Header, tensors: Iterable[TensorInfo] | None = None) -> HyperParameters:
    """Read and check the hyper-parameters.

    Args:
        header: of the file, or of the first part of a split model.
        tensors: of all parts of a split model (`Split.tensors`); by default those of the header.

    Raises:
        ModelFileError: a key is missing, of the wrong type, out of range or at odds with another key or a tensor's shape.
    """
    reader = _Reader(header)
    all_tensors = header.tensors if tensors is None else tuple(tensors)
    parameters = reader.read(sum(tensor.n_elements for tensor in all_tensors))
    if reader.checked:
        is_complete = tensors is not None or header.integer("split.count", 1) <= 1
        check_shapes(header, all_tensors, _dimensions(parameters), is_complete=is_complete)
    return parameters


def _dimensions(parameters: HyperParameters) -> Dimensions:
    return Dimensions(
        n_layers=parameters.n_layers,
        embedding=parameters.n_embedding,
        vocab=parameters.n_vocab,
        query=parameters.n_heads * parameters.head_size,
        key=parameters.n_kv_heads * parameters.head_size,
        value=parameters.n_kv_heads * parameters.value_size,
        attention=parameters.n_heads * parameters.value_size,
        head=parameters.head_size,
        ff=parameters.n_ff,
        rope_pairs=parameters.rope.n_dims // 2,
        experts=parameters.n_experts,
    )


class _Reader:
    """Knows the architecture's prefix, and whether its keys are required."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.architecture = header.string("general.architecture")
        if not _ARCHITECTURE.fullmatch(self.architecture):
            message = f"key 'general.architecture' is {shown(self.architecture)}, expected a short lower-case name"
            raise header.error(message, MALFORMED, header.offset_of("general.architecture"))
        self.checked = self.architecture in CHECKED_ARCHITECTURES

    def key(self, name: str) -> str:
        return f"{self.architecture}.{name}"

    def read(self, n_parameters: int) -> HyperParameters:
        n_layers = self.count("block_count")
        n_embedding = self.count("embedding_length")
        n_heads = self.count("attention.head_count", n_layers=n_layers)
        n_kv_heads = self.count("attention.head_count_kv", n_heads, n_layers=n_layers)
        own_size = self.own_head_size(n_embedding, n_heads)
        head_size = self.count("attention.key_length", own_size)
        n_context_train = self.count("context_length")
        parameters = HyperParameters(
            architecture=self.architecture,
            name=self.header.string("general.name", ""),
            n_layers=n_layers,
            n_embedding=n_embedding,
            n_heads=n_heads,
            n_kv_heads=n_kv_heads,
            head_size=head_size,
            value_size=self.count("attention.value_length", own_size),
            n_ff=self.count("feed_forward_length", n_layers=n_layers),
            n_context_train=n_context_train,
            n_vocab=self.n_vocab(),
            n_experts=self.experts("expert_count"),
            n_experts_used=self.experts("expert_used_count"),
            rms_epsilon=self.rms_epsilon(),
            rope=self.rope(head_size, n_context_train),
            n_parameters=n_parameters,
        )
        if self.checked:
            self.check(parameters)
        return parameters

    def count(self, name: str, default: int | None = None, *, n_layers: int = 0) -> int:
        """A number of things: one value, or (given `n_layers`, unless the architecture is checked) one for each layer."""
        key, header = self.key(name), self.header
        low, high = int(self.checked), _LIMITS[name]
        value = header.metadata.get(key)
        if value is None and (default is not None or not self.checked):
            return default or 0
        if value is None or value.type is not ValueType.ARRAY or self.checked or not n_layers:
            return header.integer(key, low=low, high=high)
        entries = header.integers(key)
        if len(entries) != n_layers or not low <= entries.min() <= entries.max() <= high:
            message = f"key {key!r} has {len(entries)} entries, expected {n_layers}, each from {low} to {high}"
            raise header.error(message, MALFORMED, value.offset)
        return int(entries.max())

    def experts(self, name: str) -> int:
        return self.header.integer(self.key(name), 0, low=0, high=_LIMITS[name])

    def own_head_size(self, n_embedding: int, n_heads: int) -> int:
        """The head size where no key states it: the residual stream's width, shared among the heads."""
        if not n_heads:
            return 0
        stated = {self.key("attention.key_length"), self.key("attention.value_length")} <= self.header.metadata.keys()
        if self.checked and n_embedding % n_heads and not stated:
            self.contradict("attention.head_count", f"{n_heads} heads do not divide a width of {n_embedding}")
        return n_embedding // n_heads

    def n_vocab(self) -> int:
        tokens = self.header.strings("tokenizer.ggml.tokens", None)
        declared = self.count("vocab_size", len(tokens) if tokens else None)
        # Where both are there, the tokens count: some converters leave the size of a base model behind.
        return len(tokens) if tokens else declared

    def rms_epsilon(self) -> float:
        key = self.key("attention.layer_norm_rms_epsilon")
        if self.checked:
            return self.header.number(key, low=_SMALLEST_POSITIVE, high=1.0)
        return self.header.number(key, 0.0, low=0.0, high=1.0)

    def rope(self, head_size: int, n_context_train: int) -> RopeParameters:
        number, key = self.header.number, self.key
        factor = number(key("rope.scaling.factor"), None, low=_SMALLEST_POSITIVE, high=_MAX_ROPE_FACTOR)
        if factor is None:
            factor = number(key("rope.scale_linear"), 1.0, low=_SMALLEST_POSITIVE, high=_MAX_ROPE_FACTOR)
        scaling = self.scaling(factor)
        return RopeParameters(
            base=number(key("rope.freq_base"), 10000.0, low=_SMALLEST_POSITIVE, high=_MAX_ROPE_BASE),
            n_dims=self.count("rope.dimension_count", head_size),
            scaling=scaling,
            factor=factor,
            attention_factor=number(key("rope.scaling.attn_factor"), 1.0, low=_SMALLEST_POSITIVE, high=_MAX_ROPE_FACTOR),
            n_context_original=self.header.integer(
                key("rope.scaling.original_context_length"), n_context_train, low=1, high=_LIMITS["context_length"]
            ),
            yarn=self.yarn() if scaling == "yarn" else None,
        )

    def yarn(self) -> YarnParameters:
        default = YarnParameters()

        def number(name: str, absent: float, low: float, high: float) -> float:
            return self.header.number(self.key(f"rope.scaling.yarn_{name}"), absent, low=low, high=high)

        extrapolation = number("ext_factor", -1.0, -1.0, 1.0)
        return YarnParameters(
            extrapolation=default.extrapolation if extrapolation < 0.0 else extrapolation,  # how llama.cpp writes "not set"
            beta_fast=number("beta_fast", default.beta_fast, _SMALLEST_POSITIVE, _MAX_ROPE_FACTOR),
            beta_slow=number("beta_slow", default.beta_slow, _SMALLEST_POSITIVE, _MAX_ROPE_FACTOR),
            log_multiplier=number("log_multiplier", default.log_multiplier, 0.0, _MAX_ROPE_FACTOR),
            attention_factor=number("attn_factor", default.attention_factor, _SMALLEST_POSITIVE, _MAX_ROPE_FACTOR),
        )

    def scaling(self, factor: float) -> Scaling:
        key = self.key("rope.scaling.type")
        kind = self.header.string(key, "none" if factor == 1.0 else "linear")
        if kind not in _SCALINGS:
            message = f"key {key!r} is {shown(kind)}, expected one of {', '.join(_SCALINGS)}"
            raise self.header.error(message, MALFORMED, self.header.offset_of(key))
        return cast(Scaling, kind)

    def check(self, parameters: HyperParameters) -> None:
        """What no single key can say."""
        if parameters.n_heads % parameters.n_kv_heads:
            self.contradict("attention.head_count_kv", f"{parameters.n_kv_heads} does not divide the {parameters.n_heads} heads")
        if parameters.head_size % 2:
            self.contradict("attention.key_length", f"head size {parameters.head_size} is odd")
        if parameters.rope.n_dims > parameters.head_size or parameters.rope.n_dims % 2:
            problem = f"{parameters.rope.n_dims} rotated dimensions do not fit a head size of {parameters.head_size}"
            self.contradict("rope.dimension_count", problem)
        if parameters.n_experts_used > parameters.n_experts:
            self.contradict("expert_used_count", f"{parameters.n_experts_used} of {parameters.n_experts} experts are used")

    def contradict(self, name: str, problem: str) -> None:
        key = self.key(name)
        offset = self.header.offset_of(key)
        if offset is None:
            offset = self.header.offset_of(self.key("attention.head_count"))
        raise self.header.error(f"key {key!r}: {problem}", MALFORMED, offset)
