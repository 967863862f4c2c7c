"""The main job: Qwen2.5-Coder 1.5B verified, 0.5B drafting, on prompts that nobody here wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import outrider
from outrider.api import Pair
from tests.real.near_tie import near_ties
from tests.real.prompts import human_eval_prompts, instruction

N_PROMPTS = 20
N_TOKENS = 64


@pytest.fixture(scope="module")
def pair(qwen_target_path: Path, qwen_draft_path: Path) -> Iterator[Pair]:
    settings = outrider.Settings.of(
        model=str(qwen_target_path), draft_model=str(qwen_draft_path), context=2048, max_tokens=N_TOKENS, draft_p_min=0.6
    )
    with outrider.load(settings) as loaded:
        yield loaded


def test_greedy_text_is_plain_decoding_s_or_leaves_it_through_near_ties(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    n_drafted = n_accepted = n_same = 0
    differences = []
    for number, prompt in enumerate(human_eval_prompts(N_PROMPTS)):
        result = pair.generate(instruction(prompt))
        n_drafted += result.metrics.drafted
        n_accepted += result.metrics.accepted
        tokens = [token.id for token in result.tokens]
        ties = near_ties(pair.engine.target, pair.encode(instruction(prompt)), tokens, pair.tokenizer.end_tokens)
        n_same += not ties
        differences += [f"prompt {number}, token {at}: margin {margin:.4f}" for at, margin in ties]
    with capsys.disabled():
        print(f"\n{n_same} of {N_PROMPTS} texts equal plain decoding; near ties: {differences or 'none'}")
        print(f"accepted {n_accepted} of {n_drafted} drafted tokens")
    assert n_drafted > N_PROMPTS * N_TOKENS // 2
    assert n_accepted / n_drafted > 0.9


def test_match_mode_accepts_most_of_a_sampled_draft(pair: Pair) -> None:
    sampling = outrider.Settings.of(temperature=0.8, seed=3).sampling
    result = pair.generate(instruction(human_eval_prompts(1)[0]), sampling=sampling)
    assert result.config["verify"]["value"] == "match"
    assert result.metrics.alpha is not None
    assert result.metrics.alpha > 0.7


def test_the_command_line_gives_the_document(qwen_target_path: Path, qwen_draft_path: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(instruction(human_eval_prompts(3)[2]), encoding="utf-8")
    command = [sys.executable, "-m", "outrider", "run", "-m", str(qwen_target_path), "-md", str(qwen_draft_path), "-f", str(prompt)]
    command += ["--policy", "fixed", "--draft-p-min", "0.6", "-n", "96", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    document = json.loads(done.stdout)
    assert "".join(token["text"] for token in document["tokens"]) == document["text"]
    assert document["speculation"]["active"]
    assert document["speculation"]["acceptance_rate"] > 0.9
    assert document["speculation"]["by_drafter"]["model"]["accepted"] == document["speculation"]["accepted"]
    assert document["config"]["draft_p_min"] == {"value": 0.6, "origin": "command line"}
