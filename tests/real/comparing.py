"""What every comparison with plain decoding on real models needs: pairs on either backend, plain text, and a tally of drafts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest

import outrider
from outrider import native
from outrider.api import Pair
from outrider.result import GenerationResult
from outrider.types import Tokens
from tests.real.near_tie import decode_plainly, near_ties
from tests.real.prompts import human_eval_prompts, instruction


@contextmanager
def loaded(backend: str, **options: Any) -> Iterator[Pair]:
    """A pair on this backend. Skips the test where the backend is not installed."""
    if backend == "native" and not native.is_available():
        pytest.skip("the native core was not built")
    if backend == "llama" and find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed (it is part of the extra [llama])")
    with outrider.load(outrider.Settings.of(backend=backend, **options)) as pair:
        assert pair.engine.target.capabilities.backend == backend
        yield pair


def sharing(pair: Pair, **options: Any) -> Pair:
    """The models of a pair under other settings. Don't close it: the models are the other pair's."""
    return Pair(pair._loaded, outrider.Settings.of(**options))


def ids(result: GenerationResult) -> Tokens:
    return [token.id for token in result.tokens]


def plain_text(pair: Pair, prompt: str, n_tokens: int) -> Tokens:
    """Greedy decoding one row at a time, through the port alone; without the end token."""
    end_tokens = pair.tokenizer.end_tokens
    tokens = decode_plainly(pair.engine.target, pair.encode(instruction(prompt)), n_tokens, end_tokens).tokens
    return tokens[:-1] if tokens[-1] in end_tokens else tokens


@dataclass
class Tally:
    """Drafted tokens over several generations."""

    drafted: int = 0
    accepted: int = 0
    cut: int = 0

    def add(self, result: GenerationResult) -> None:
        assert result.is_active
        self.drafted += result.metrics.drafted
        self.accepted += result.metrics.accepted
        self.cut += result.metrics.cut


def check_near_ties(pair: Pair, n_prompts: int, show: pytest.CaptureFixture[str]) -> Tally:
    """Every text equals plain decoding, or leaves it through near ties alone, which are printed."""
    tally, differences, n_same = Tally(), [], 0
    for number, prompt in enumerate(human_eval_prompts(n_prompts)):
        result = pair.generate(instruction(prompt))
        tally.add(result)
        ties = near_ties(pair.engine.target, pair.encode(instruction(prompt)), ids(result), pair.tokenizer.end_tokens)
        n_same += not ties
        differences += [f"prompt {number}, token {at}: margin {margin:.4f}" for at, margin in ties]
    with show.disabled():
        print(f"\n{n_same} of {n_prompts} texts equal plain decoding; near ties: {differences or 'none'}")
        print(f"accepted {tally.accepted} of {tally.drafted} drafted tokens")
    return tally
