"""Is a difference from plain decoding a near tie? An oracle for backends whose kernels depend on the width of the pass.

llama.cpp computes a row alone with other kernels than in a batch, so logits differ in their last digits, and where two tokens
are almost equally likely the other one may win. Anything more than that is a bug of ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from outrider.model import LanguageModel, Segment
from outrider.types import Tokens

MAX_MARGIN = 0.1
"""Logits closer than this are a near tie."""


@dataclass(frozen=True)
class PlainRun:
    """Greedy decoding one row at a time, with the runner-up and its distance at every position."""

    tokens: Tokens
    runners_up: Tokens
    margins: list[float]


def decode_plainly(model: LanguageModel, prompt: Tokens, n: int, end_tokens: frozenset[int]) -> PlainRun:
    """Up to `n` tokens, the end token included, through the port alone: no engine, no drafter."""
    run = PlainRun([], [], [])
    sequence = model.open()
    try:
        pending = list(prompt)
        while len(run.tokens) < n:
            while len(pending) > model.capabilities.max_rows:
                chunk, pending = pending[: model.capabilities.max_rows], pending[model.capabilities.max_rows :]
                model.evaluate([Segment(sequence, tuple(chunk), n_outputs=0)])
                sequence.commit(range(len(chunk)))
            ids, logits = model.evaluate([Segment(sequence, tuple(pending), n_outputs=1)]).top_k([len(pending) - 1], 2)
            sequence.commit(range(len(pending)))
            run.tokens.append(int(ids[0, 0]))
            run.runners_up.append(int(ids[0, 1]))
            run.margins.append(float(logits[0, 0] - logits[0, 1]))
            pending = [run.tokens[-1]]
            if run.tokens[-1] in end_tokens:
                break
    finally:
        sequence.close()
    return run


def near_ties(model: LanguageModel, prompt: Tokens, text: Tokens, end_tokens: frozenset[int]) -> list[tuple[int, float]]:
    """Positions and margins where `text` (without its end token) leaves plain decoding through a near tie; [] if it never does.

    Raises:
        AssertionError: it leaves plain decoding in any other way.
    """
    ties: list[tuple[int, float]] = []
    start = 0
    while True:
        run = decode_plainly(model, prompt + text[:start], len(text) - start + 1, end_tokens)
        rest = text[start:]
        at = next((i for i, token in enumerate(rest) if i >= len(run.tokens) or run.tokens[i] != token), None)
        if at is None:
            return ties
        assert at < len(run.tokens), f"plain decoding had ended at {start + at}, the other text goes on"
        assert run.margins[at] < MAX_MARGIN, f"token {start + at}: plain decoding was sure by {run.margins[at]:.3f}"
        assert run.runners_up[at] == rest[at], f"token {start + at} is not plain decoding's runner-up"
        ties.append((start + at, run.margins[at]))
        start += at + 1
