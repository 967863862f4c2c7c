"""Rotary positions: which of a file's settings the core knows, and how it is told."""

from __future__ import annotations

from typing import Final

from outrider.gguf import HyperParameters, Split
from outrider.native import _core

FACTORS: Final = "rope_freqs.weight"
"""A divisor for each frequency, at any length of context: how llama3 scaling is stored."""

LONG_FACTORS: Final = "rope_factors_long.weight"
SHORT_FACTORS: Final = "rope_factors_short.weight"
"""The same for longrope, which has one set beyond the original context and one within it."""

_WITH_FACTORS: Final = ("llama",)
"""Architectures for which llama.cpp reads any factors."""

_PAIRWISE: Final = ("llama",)
"""Architectures that rotate neighbouring pairs; the others rotate the two halves of a head."""


def unsupported_rope(split: Split, parameters: HyperParameters) -> str | None:
    """Why the core cannot rotate as this file wants it, or None if it can."""
    rope = parameters.rope
    found = {tensor.name for tensor in split.tensors} & {FACTORS, LONG_FACTORS, SHORT_FACTORS}
    if rope.scaling == "longrope" and parameters.architecture not in _WITH_FACTORS:
        return f"the native engine does not know the rope scaling 'longrope' of the architecture '{parameters.architecture}'"
    expected = {LONG_FACTORS, SHORT_FACTORS} if rope.scaling == "longrope" else found & {FACTORS}
    if found != expected or (found and parameters.architecture not in _WITH_FACTORS):
        names = ", ".join(sorted(found)) or "no factors"
        return f"the native engine does not know {names} with the rope scaling '{rope.scaling}' of '{parameters.architecture}'"
    if rope.yarn is not None and rope.yarn.attention_factor != 1.0:
        return f"the native engine does not know a yarn_attn_factor of {rope.yarn.attention_factor:g}"
    return None


def set_rope(hyper: _core.HyperParameters, split: Split, parameters: HyperParameters, n_context: int) -> None:
    """Tell the core how to rotate.

    Args:
        hyper: the rope part is written.
        split: says which factors there are.
        parameters: of the file; `unsupported_rope` found nothing in them.
        n_context: positions of a sequence. As in llama.cpp it chooses between the factors of longrope, for the whole sequence:
            keys that were rotated with one set cannot be read with the other.
    """
    rope = parameters.rope
    hyper.rope_base = rope.base
    hyper.rope_scale = 1.0 if rope.scaling == "none" else 1.0 / rope.factor
    hyper.rope_dimensions = rope.n_dims
    hyper.rope_neox = parameters.architecture not in _PAIRWISE
    hyper.rope_attention_factor = rope.attention_factor
    hyper.rope_original_context = rope.n_context_original
    if rope.scaling == "longrope":
        hyper.rope_factors = LONG_FACTORS if n_context > rope.n_context_original else SHORT_FACTORS
    elif any(tensor.name == FACTORS for tensor in split.tensors):
        hyper.rope_factors = FACTORS
    if rope.yarn is not None:
        hyper.rope_extrapolation = rope.yarn.extrapolation
        hyper.rope_beta_fast = rope.yarn.beta_fast
        hyper.rope_beta_slow = rope.yarn.beta_slow
        hyper.rope_log_multiplier = rope.yarn.log_multiplier
