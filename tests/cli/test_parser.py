"""The grammar of the command line, built from the options' declarations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import outrider as package
from outrider.cli.examples import example, example_names
from outrider.cli.main import build_parser
from outrider.cli.settings import all_options
from outrider.config import option_default
from tests.cli.terminal import ROOT, environment

HEAVY = ("numpy", "llama_cpp", "rich", "jinja2", "tokenizers", "huggingface_hub", "httpx")


def parse(*words: str) -> dict[str, Any]:
    return vars(build_parser().parse_args(["run", *words]))


@pytest.mark.parametrize(("name", "spec", "kind"), [row[1:] for row in all_options()], ids=[row[1] for row in all_options()])
def test_every_name_of_every_option_is_accepted(name: str, spec: Any, kind: Any) -> None:
    for flag in spec.flags:
        if kind is bool:
            assert parse(flag)[name] is True
        elif spec.repeatable:
            assert parse(flag, "1", flag, "2")[name] == ["1", "2"]
        else:
            assert parse(flag, "1")[name] == "1" if spec.optional_value is None else parse(flag)[name] == spec.optional_value
    assert name not in parse()


def test_the_pasted_line_means_what_it_says() -> None:
    line = "-m A -md B -f prompt.txt -c 8192 -ngl 99 -ngld 99 --draft 32 --color --sampling-seq k --top-k 1 --temp 0.0 -fa"
    found = parse(*line.split())
    expected = {"model": "A", "draft_model": "B", "file": "prompt.txt", "context": "8192", "gpu_layers": "99", "draft_gpu_layers": "99"}
    expected |= {"draft_max": "32", "color": "on", "top_k": "1", "temperature": "0.0", "flash_attention": "on", "sampler_sequence": "k"}
    assert {name: found[name] for name in expected} == expected
    assert found["notices"] == []


@pytest.mark.parametrize(
    "flag", ["--trace", "--prediction", "--corpus", "--cross-vocab", "--rpc", "-ot", "--grammar", "--lora", "--mirostat"]
)
def test_what_does_not_exist_yet_is_not_swallowed(outrider: Any, flag: str) -> None:
    done = outrider("run", "-m", "t", "-p", "x", flag, "y")
    assert done.code == 2
    assert f"there is no option {flag}" in done.err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("rum",), "there is no command 'rum'", "did you mean run?"),
        (("xyzzy",), "there is no command 'xyzzy'", "the commands are: run, chat, models, doctor, bench"),
        (("chat", "hello"), "unrecognized arguments: hello", "--help"),
        (("--frobnicate",), "COMMAND", "--help"),
        (("run", "-m", "t", "--temprature", "1"), "there is no option --temprature", "did you mean --temperature?"),
    ],
)
def test_a_wrong_command_line(outrider: Any, words: tuple[str, ...], message: str, hint: str) -> None:
    done = outrider(*words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert hint in done.err
    assert "usage:" not in done.err


def test_no_command_shows_the_help(outrider: Any) -> None:
    done = outrider()
    assert (done.code, done.out) == (2, "")
    assert "example:" in done.err


def test_version(outrider: Any) -> None:
    done = outrider("--version")
    assert (done.code, done.out) == (0, f"outrider {package.__version__}\n")


@pytest.mark.parametrize("command", ["run", "chat", "doctor"])
def test_help_names_every_option_with_its_default(outrider: Any, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    done = outrider(command, "--help")
    assert done.code == 0
    for group, name, spec, _ in all_options():
        assert spec.flags[0] in done.out or spec.flags[1] in done.out
        default = option_default(group, name)
        if default not in (None, False, (), 0):
            assert f"default {default}" in done.out


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_help_fits_the_terminal(outrider: Any, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "example:" in outrider("--help").out
    options = outrider("run", "--help").out.partition("example:")[0].partition("options:")[2]
    assert max(map(len, options.splitlines())) <= max(60, int(columns))


def test_help_loads_nothing_heavy() -> None:
    code = f"""
import sys
from outrider.cli.main import main
assert main(["run", "--help"]) == 0 and main(["--help"]) == 0
loaded = [name for name in {HEAVY} if name in sys.modules]
sys.exit(f"loaded: {{loaded}}" if loaded else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_dash_m_runs_it() -> None:
    done = subprocess.run([sys.executable, "-m", "outrider", "--version"], capture_output=True, text=True, env=environment(), check=False)
    assert done.stdout == f"outrider {package.__version__}\n"


def test_bundled_prompts_are_texts_and_travel_with_the_package() -> None:
    assert len(example_names()) >= 3
    for name in example_names():
        text = example(name)
        assert text == text.strip()
        assert len(text) > 100
    assert (Path(package.__file__).parent / "prompts").is_relative_to(ROOT / "src" / "outrider")
