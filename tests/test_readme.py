"""Every command that README.md and docs/quickstart.md show is run here; CI itself is the test of the two set-up commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.cli.examples import example_names
from outrider.models.catalogue import CATALOGUE

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = (README, ROOT / "docs" / "quickstart.md")
SETUP = ("./scripts/quickstart", "./scripts/test")
ACTIVATE = ". .venv/bin/activate"
OUTRIDER = [sys.executable, "-c", "import sys; from outrider.cli.main import main; sys.exit(main())"]
FEW_TOKENS = ["-n", "12"]  # that a command works shows in a few tokens


def blocks(page: Path, language: str) -> list[str]:
    """Contents of the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every command line that the pages show, once."""
    lines = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    return list(dict.fromkeys(lines))


def wants_models(command: str) -> bool:
    return any(model.name in command for model in CATALOGUE)


LIGHT = [command for command in commands() if command.startswith("outrider ") and not wants_models(command)]
ON_MODELS = [command for command in commands() if command.startswith("outrider ") and wants_models(command)]


def run(words: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(words, cwd=ROOT, env=environment, input=text, capture_output=True, text=True, check=False)


def test_every_command_is_of_a_kind_that_is_tested() -> None:
    assert [command for command in commands() if command not in {*SETUP, ACTIVATE, *LIGHT, *ON_MODELS}] == []
    assert LIGHT
    assert ON_MODELS


def test_there_are_exactly_two_setup_commands() -> None:
    setup = README.read_text(encoding="utf-8").partition("## Set up")[2].partition("\n## ")[0]
    assert re.findall(r"^```sh\n(.*)\n```", setup, re.MULTILINE) == list(SETUP)


def test_ci_runs_the_readme_s_test_command_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ['cd "$(dirname "$0")/.."', "export OUTRIDER_TEST_MODELS=full", f"exec {SETUP[1]}"]


@pytest.mark.parametrize("command", SETUP)
def test_a_setup_command_says_what_it_would_do(command: str) -> None:
    done = run([*shlex.split(command), "--dry-run"])
    assert (done.returncode, done.stderr) == (0, "")
    shown = "outrider run -m" if command == SETUP[0] else "make lint test"
    assert f"would run: {'.venv/bin/' if command == SETUP[0] else ''}{shown}" in done.stdout


@pytest.mark.parametrize("command", SETUP)
def test_a_setup_command_refuses_what_it_does_not_know(command: str) -> None:
    done = run([*shlex.split(command), "--fast"])
    assert done.returncode == 1
    assert done.stderr == f"error: unknown option --fast; see {command} --help\n"


def test_the_quickstart_s_prompt_is_a_bundled_one() -> None:
    named = re.findall(r"--example (\S+)", (ROOT / "scripts" / "quickstart").read_text())
    assert [name for name in named if name not in example_names()] == []
    assert named


@pytest.mark.parametrize("command", LIGHT)
def test_a_command_without_models_works(command: str) -> None:
    done = run([*OUTRIDER, *shlex.split(command)[1:]])
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", ON_MODELS)
@pytest.mark.usefixtures("qwen_target_path", "qwen_draft_path")
def test_a_command_on_the_pair_works(command: str) -> None:
    words = shlex.split(command)[1:]
    generates = words[0] in ("run", "chat") and "-n" not in words
    done = run([*OUTRIDER, *words, *(FEW_TOKENS if generates else [])], text="Say hello.\n" if words[0] == "chat" else "")
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.usefixtures("qwen_target_path", "qwen_draft_path")
def test_the_python_example_works() -> None:
    (example,) = blocks(README, "python")
    done = run([sys.executable, "-c", example.replace("max_tokens=200", "max_tokens=12")])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
