"""The whole stack on a real, small model: SmolLM2-135M drafting for itself and against plain decoding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import outrider
from outrider.api import Pair
from outrider.types import StopReason, TokenKind
from tests.real.near_tie import near_ties
from tests.real.prompts import human_eval_prompts, instruction


@pytest.fixture(scope="module")
def pair(smollm2_path: Path) -> Iterator[Pair]:
    path = str(smollm2_path)
    with outrider.load(outrider.Settings.of(model=path, draft_model=path, context=1024, max_tokens=48, draft_p_min=0.3)) as loaded:
        yield loaded


def test_drafting_for_itself_gives_plain_text_and_is_nearly_always_accepted(pair: Pair) -> None:
    n_drafted = n_accepted = 0
    for prompt in human_eval_prompts(6):
        result = pair.generate(instruction(prompt))
        assert result.is_active
        n_drafted += result.metrics.drafted
        n_accepted += result.metrics.accepted + result.metrics.cut
        tokens = [token.id for token in result.tokens]
        near_ties(pair.engine.target, pair.encode(instruction(prompt)), tokens, pair.tokenizer.end_tokens)
    assert n_drafted > 100
    # what is missing from 100 % are drafts beyond the end, and near ties between wide and narrow passes
    assert n_accepted / n_drafted > 0.9


def test_match_mode_is_drawn_with_the_same_noise(pair: Pair) -> None:
    sampling = outrider.Settings.of(temperature=0.8, seed=11).sampling
    first, second = (pair.generate("Tell me about the sea.", sampling=sampling) for _ in range(2))
    assert first.text == second.text
    assert first.config["verify"]["value"] == "match"
    assert first.metrics.acceptance_rate is not None
    assert first.metrics.acceptance_rate > 0.9


def test_rejection_accepts_a_model_that_drafts_for_itself(pair: Pair) -> None:
    sampling = outrider.Settings.of(temperature=0.8).sampling
    result = pair.generate("Tell me about the sea.", sampling=sampling)
    assert result.config["verify"]["value"] == "rejection"
    assert result.metrics.alpha is not None
    assert result.metrics.alpha > 0.9


def test_the_second_turn_of_a_chat_evaluates_only_new_tokens_on_both_models(pair: Pair) -> None:
    chat = pair.chat()
    first = chat.send("Name three colours.")
    second = chat.send("And three animals.")
    chat.close()
    n_new = second.timings.prompt_tokens - first.timings.prompt_tokens - len(first.tokens)
    assert 0 < n_new < 40
    assert second.timings.prompt_evaluated == n_new + 1  # and the token that was pending
    assert second.timings.draft_prompt_evaluated <= n_new + 2


def test_stop_strings_and_budget(pair: Pair) -> None:
    whole = pair.generate("Name three colours.")
    word = whole.text.split()[3]
    stopped = pair.generate("Name three colours.", outrider.Settings.of(stop=(word,)).generation)
    assert stopped.stop_reason is StopReason.STOP_STRING
    assert stopped.text == whole.text[: whole.text.index(word)]
    one = pair.generate("Name three colours.", outrider.Settings.of(max_tokens=1).generation)
    assert len(one.tokens) == 1
    assert one.tokens[0].kind is TokenKind.PLAIN
