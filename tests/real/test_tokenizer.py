"""The native tokenizer against llama.cpp on real vocabularies: this repository's own files, and every assigned part of Unicode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("gguf", reason="the package gguf is not installed")
pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("outrider.native._core", reason="the native core was not built", exc_type=ImportError)

from tests.native.vocabulary_files import Both

ROOT = Path(__file__).parents[2]
PLANES = [*range(0x20, 0xD800), *range(0xE000, 0xF000), *range(0xF900, 0x20000)]


def texts() -> Iterator[str]:
    for pattern in ("src/**/*.py", "native/*.cpp", "docs/**/*.md"):
        for path in sorted(ROOT.glob(pattern))[:40]:
            yield path.read_text(encoding="utf-8")
    for start in range(0, len(PLANES), 64):
        block = [chr(code) for code in PLANES[start : start + 64]]
        for between in ("", " ", "a", "1\n", "<|im_start|>"):
            yield between.join(block)


def compare(path: Path) -> None:
    both = Both(path)
    for text in texts():
        both.check(text)
    both.check_pieces()
    both.close()


def test_smollm2(smollm2_path: Path) -> None:
    compare(smollm2_path)


def test_qwen(qwen_target_path: Path) -> None:
    compare(qwen_target_path)
