"""The `outrider bench` commands that Makefile and pages show are ones that the command line understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from outrider.cli.bench import curve_plan
from outrider.cli.main import build_parser

ROOT = Path(__file__).parent.parent.parent
SOURCES = [ROOT / "Makefile", ROOT / "README.md", *ROOT.glob("benchmarks/*.md"), *ROOT.glob("docs/*.md")]
COMMANDS = sorted(
    {
        command.strip()
        for path in SOURCES
        for command in re.findall(r"outrider (bench curve -m [^`\n|]+)", path.read_text(encoding="utf-8"))
        if "TARGET" not in command
    }
)


def test_there_are_some() -> None:
    assert len(COMMANDS) > 3


@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_understood(command: str) -> None:
    args = build_parser().parse_args(shlex.split(command))
    assert curve_plan(args).shapes
    assert args.model == "tiny.gguf" or args.model.startswith("qwen2.5")
