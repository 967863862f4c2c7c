"""Steps that the tests of passes share, and what they compare with."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from outrider.llama import LlamaModel
from outrider.llama.sequence import LlamaSequence
from outrider.model import Segment
from tests.llama.conftest import Make

CLOSE = 1e-3
"""llama.cpp's kernels depend on the width of a pass; logits of these models are around 5."""

WORDS = tuple(np.random.default_rng(5).integers(0, 256, size=120).tolist())


def feed(model: LlamaModel, sequence: LlamaSequence, tokens: tuple[int, ...], *, outputs: int | None = None) -> NDArray[np.float32]:
    """Evaluate, copy the logits, commit everything."""
    evaluation = model.evaluate([Segment(sequence, tokens, n_outputs=outputs)])
    n_outputs = len(tokens) if outputs is None else outputs
    logits = evaluation.rows(range(len(tokens) - n_outputs, len(tokens))).copy()
    sequence.commit(range(len(tokens)))
    return logits


def fresh(model: LlamaModel, tokens: tuple[int, ...]) -> NDArray[np.float32]:
    """Logits of every position, from an empty sequence in one pass."""
    sequence = model.open()
    logits = feed(model, sequence, tokens)
    sequence.close()
    return logits


def prepared(make: Make) -> tuple[LlamaModel, LlamaSequence, LlamaSequence]:
    model = make()
    first, second = model.open(), model.open()
    feed(model, first, WORDS[:12])
    feed(model, second, WORDS[20:27])
    return model, first, second


def check_unharmed(model: LlamaModel, first: LlamaSequence, second: LlamaSequence) -> None:
    """Lengths, contents and free cells are what `prepared` left."""
    assert (first.length, second.length) == (12, 7)
    assert model._native.cache.free == 4 * 256 - 19
    assert np.allclose(feed(model, first, (5, 6)), fresh(model, (*WORDS[:12], 5, 6))[-2:], atol=CLOSE)
    assert np.allclose(feed(model, second, (5,)), fresh(model, (*WORDS[20:27], 5))[-1:], atol=CLOSE)


class SetOnQuestion(threading.Event):
    """An event that is set when it has been asked some times: deterministic, unlike a timer."""

    def __init__(self, n_questions: int) -> None:
        super().__init__()
        self.left = n_questions

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0
