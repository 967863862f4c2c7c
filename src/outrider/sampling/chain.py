"""The sampler chain: from a row of logits to the distribution that the next token is drawn from."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from outrider.config import SamplingOptions
from outrider.types import Distribution, Logits


class SamplerChain:
    """Penalties, temperature, top-k, top-p, min-p, in llama.cpp's order. Pure: both sides of a verification use it.

    Args:
        options: the chain's settings; temperature 0 is greedy.
    """

    def __init__(self, options: SamplingOptions) -> None: ...

    @property
    def is_greedy(self) -> bool:
        """Temperature 0: the next token is the argmax of the (penalised) logits."""
        ...

    @property
    def needs_history(self) -> bool:
        """Whether penalties are on, so that a row depends on the tokens before it, not only on its logits."""
        ...

    def argmax(self, logits: Logits, history: Seq[int]) -> int:
        """The greedy token of one row [n_vocab] after penalties; the lowest id among equals.

        Raises EngineError for NaN logits.
        """
        ...

    def distribution(self, logits: Logits, history: Seq[int]) -> Distribution:
        """The distribution of one row [n_vocab]; at temperature 0 a point mass.

        Args:
            logits: float32 [n_vocab].
            history: the tokens before this position, most recent last; only the last `penalty_last_n` matter.
        """
        ...
