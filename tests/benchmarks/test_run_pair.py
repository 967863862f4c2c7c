"""The benchmark's arithmetic on documents whose answer is known, and its refusal of files that hold no prompts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.run_pair import PLAIN, BenchError, Sample, read_prompts, summarise
from outrider.cli.examples import example


def document(text: str, speed: float, *, steps: int, drafted: int = 0, accepted: int = 0) -> dict[str, Any]:
    tokens = [{"text": letter} for letter in text]
    return {
        "text": text,
        "tokens": tokens,
        "timings": {"decode_tokens": len(tokens) - 1, "decode_ms": (len(tokens) - 1) / speed * 1e3, "tokens_per_second": speed},
        "speculation": {"steps": steps, "drafted": drafted, "accepted": accepted},
    }


def test_ratios_compare_a_prompt_with_itself() -> None:
    samples = {
        PLAIN: Sample([document("abcde", 10, steps=5), document("abcde", 40, steps=5), document("abcde", 20, steps=5)]),
        "native fast": Sample(
            [
                document("abcde", 20, steps=2, drafted=4, accepted=3),
                document("abcdX", 20, steps=2, drafted=4, accepted=3),
                document("abcde", 30, steps=3, drafted=2, accepted=2),
            ]
        ),
    }
    plain, fast = summarise(samples, ["a", "a", "b"])
    assert (plain["ratio_to_plain"], plain["worst_ratio_to_plain"], plain["acceptance_rate"], plain["identical_to_plain"]) == (
        1,
        1,
        None,
        3,
    )
    assert (fast["ratio_to_plain"], fast["worst_ratio_to_plain"], fast["spread"]) == (1.5, 0.5, [0.5, 2.0])
    assert (fast["acceptance_rate"], fast["block_efficiency"], fast["identical_to_plain"]) == (8 / 10, 15 / 7, 2)
    assert fast["tokens_per_second"] == pytest.approx(12 / (4 / 20 + 4 / 20 + 4 / 30))
    assert fast["workload"] == "a, b"


def test_texts_are_compared_with_the_same_backend_s_and_speeds_with_native_plain() -> None:
    samples = {
        PLAIN: Sample([document("abcde", 10, steps=5)]),
        "llama plain": Sample([document("abcdX", 20, steps=5)]),
        "llama fast": Sample([document("abcdX", 5, steps=2, drafted=4, accepted=3)]),
    }
    _, plain, fast = summarise(samples, ["a"])
    assert (plain["backend"], plain["ratio_to_plain"], plain["identical_to_plain"]) == ("llama", 2, 1)
    assert (fast["backend"], fast["ratio_to_plain"], fast["identical_to_plain"]) == ("llama", 0.5, 1)


def test_an_answer_of_one_token_has_no_speed() -> None:
    lone = document("a", 10, steps=1) | {"timings": {"decode_tokens": 0, "decode_ms": 0.0, "tokens_per_second": None}}
    (row,) = summarise({PLAIN: Sample([lone])}, ["a"])
    assert (row["tokens_per_second"], row["ratio_to_plain"], row["spread"], row["tokens"]) == (None, None, None, 1)


def test_prompts_come_with_the_package_or_from_a_file(tmp_path: Path) -> None:
    assert [(prompt.workload, prompt.text) for prompt in read_prompts(None, 1)] == [("add-types", example("add-types"))]
    file = tmp_path / "humaneval.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(json.dumps({"prompt": text}) for text in ("a", "b", "c")).encode()))
    assert [(prompt.workload, prompt.text) for prompt in read_prompts(file, 2)] == [("humaneval", "a"), ("humaneval", "b")]


@pytest.mark.parametrize("text", ["", '{"question": "a"}', "[1]", "# A page"])
def test_a_file_without_prompts_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(text)
    with pytest.raises(BenchError, match="whose objects have a `prompt`"):
        read_prompts(file, 5)
