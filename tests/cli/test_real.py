"""The command line on a real model, as a user runs it: SmolLM2 drafts for itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import environment


def outrider(*words: str, stdin: str = "") -> Any:
    command = [sys.executable, "-m", "outrider", *words, "--json"]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def pair(smollm2_path: Path) -> tuple[str, ...]:
    return ("-m", str(smollm2_path), "-md", str(smollm2_path), "-c", "512")


def test_run_gives_the_document(pair: tuple[str, ...]) -> None:
    words = (*pair, "-p", "Count from one to five.", "-n", "24")
    fast = outrider("run", *words, "--draft-p-min", "0", "--draft-max", "4")
    plain = outrider("run", *words, "--plain")
    assert fast["text"] == "".join(token["text"] for token in fast["tokens"])
    assert fast["text"].strip()  # tests of the engine compare it with plain's, near ties and all
    assert fast["speculation"]["active"]
    assert fast["speculation"]["acceptance_rate"] > 0.9
    assert fast["speculation"]["block_efficiency"] > 2
    assert fast["timings"]["decode_tokens"] == len(fast["tokens"]) - 1
    assert plain["speculation"]["active"] is False
    assert fast["config"]["draft_max"] == {"value": 4, "origin": "command line"}


def test_the_second_turn_of_a_chat_reads_only_what_is_new_on_both_models(pair: tuple[str, ...]) -> None:
    first, second = outrider("chat", *pair, "-n", "12", "--draft-p-min", "0", stdin="Say hello.\nSay it again.\n")["turns"]
    assert second["timings"]["prompt_tokens"] > first["timings"]["prompt_tokens"] + len(first["tokens"])
    n_new = second["timings"]["prompt_tokens"] - first["timings"]["prompt_tokens"] - len(first["tokens"])
    for evaluated in ("prompt_evaluated", "draft_prompt_evaluated"):
        assert second["timings"][evaluated] <= n_new + 2  # and what was pending, or drafted last, in turn 1


def test_doctor_says_that_the_pair_would_speculate(pair: tuple[str, ...]) -> None:
    found = outrider("doctor", *pair)
    assert found["pair"]["speculation"] == {"active": True, "reason": ""}
    assert found["pair"]["target"]["backend"] in [backend["name"] for backend in found["backends"] if backend["kernels"]]
    assert [backend["error"] for backend in found["backends"]] == [None, None]
