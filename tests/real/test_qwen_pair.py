"""The main job: Qwen2.5-Coder 1.5B verified, 0.5B drafting, on prompts that nobody here wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.api import Pair
from outrider.types import Tokens
from tests.real.comparing import Tally, check_near_ties, ids, loaded, plain_text, sharing
from tests.real.prompts import human_eval_prompts, instruction

N_PROMPTS = 20
N_FEWER = 8
N_TOKENS = 64
N_SAMPLED = 4
SAMPLED: dict[str, Any] = {"temperature": 0.8, "seed": 3, "max_tokens": N_TOKENS}


@pytest.fixture(scope="module")
def models(qwen_target_path: Path, qwen_draft_path: Path) -> dict[str, Any]:
    return {"model": str(qwen_target_path), "draft_model": str(qwen_draft_path), "context": 2048, "draft_p_min": 0.6}


@pytest.fixture(scope="module")
def pair(models: dict[str, Any]) -> Iterator[Pair]:
    with loaded("native", **models, max_tokens=N_TOKENS) as found:
        yield found


@pytest.fixture(scope="module")
def plain_texts(pair: Pair) -> list[Tokens]:
    return [plain_text(pair, prompt, N_TOKENS) for prompt in human_eval_prompts(N_PROMPTS)]


@pytest.mark.parametrize(
    ("options", "n_prompts", "rate"),
    [
        ({"draft_p_min": 0.6}, N_PROMPTS, 0.9),
        ({"draft_p_min": 0.0, "draft_max": 7}, N_FEWER, 0.5),
        ({"draft_p_min": 0.9, "draft_max": 16, "draft_min": 2}, N_FEWER, 0.9),
    ],
)
def test_greedy_text_is_plain_decoding_s(
    pair: Pair, plain_texts: list[Tokens], options: dict[str, Any], n_prompts: int, rate: float
) -> None:
    speculative = sharing(pair, max_tokens=N_TOKENS, **options)
    tally = Tally()
    for prompt, expected in zip(human_eval_prompts(n_prompts), plain_texts, strict=False):
        result = speculative.generate(instruction(prompt))
        tally.add(result)
        assert ids(result) == expected
    assert tally.drafted > n_prompts * N_TOKENS // 4
    assert tally.accepted / tally.drafted > rate


def test_match_mode_draws_what_plain_decoding_draws(pair: Pair) -> None:
    speculative, plain = sharing(pair, draft_p_min=0.4, **SAMPLED), sharing(pair, plain=True, **SAMPLED)
    tally = Tally()
    for prompt in human_eval_prompts(N_SAMPLED):
        result = speculative.generate(instruction(prompt))
        tally.add(result)
        assert result.config["verify"]["value"] == "match"
        assert ids(result) == ids(plain.generate(instruction(prompt)))
    assert tally.accepted / tally.drafted > 0.7


def test_llama_cpp_leaves_plain_decoding_through_near_ties_alone(models: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with loaded("llama", **models, max_tokens=N_TOKENS // 2) as pair:
        tally = check_near_ties(pair, N_PROMPTS, capsys)
    assert tally.drafted > N_PROMPTS * N_TOKENS // 4
    assert tally.accepted / tally.drafted > 0.9


def test_the_command_line_gives_the_document(models: dict[str, Any], tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(instruction(human_eval_prompts(1)[0]), encoding="utf-8")  # an answer longer than the budget: no draft past its end
    command = [sys.executable, "-m", "outrider", "run", "-m", models["model"], "-md", models["draft_model"], "-f", str(prompt)]
    command += ["--policy", "fixed", "--draft-p-min", "0.6", "-n", "96", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    document = json.loads(done.stdout)
    assert "".join(token["text"] for token in document["tokens"]) == document["text"]
    assert document["speculation"]["active"]
    assert document["speculation"]["acceptance_rate"] > 0.9
    assert document["speculation"]["by_drafter"]["model"]["accepted"] == document["speculation"]["accepted"]
    assert document["config"]["draft_p_min"] == {"value": 0.6, "origin": "command line"}
