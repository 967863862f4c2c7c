"""`outrider run` from its words to its output, on a pair without weights."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider import loading
from outrider.config import Settings
from outrider.errors import OutOfMemoryError
from tests.cli.conftest import Done
from tests.cli.fakes import ANSWER, ANSWERS

PAIR = ("-m", "target", "-md", "draft")


class Stdin(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")


def document(done: Done) -> dict[str, Any]:
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_the_text_goes_to_stdout_and_the_statistics_to_stderr(outrider: Any) -> None:
    done = outrider("run", *PAIR, "-p", "hi")
    assert (done.code, done.out) == (0, f"{ANSWER}\n")
    lines = done.err.splitlines()
    assert lines[0] == "outrider: note: this pair is a fake"
    assert [line.split()[0] for line in lines if line and not line.startswith((" ", "outrider"))] == [
        "speed",
        "speculation",
        "time",
        "stopped",
    ]
    assert "draft tokens accepted" in done.err
    assert "tokens per target pass" in done.err
    assert "\x1b" not in done.out + done.err


def test_a_pasted_llama_cpp_line_runs(outrider: Any, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("hi\n")
    line = "-m A -md B -f PROMPT -c 8192 -ngl 99 -ngld 99 --draft 32 --color --sampling-seq k --top-k 1 --temp 0.0 -fa"
    done = outrider("run", *line.replace("PROMPT", str(prompt)).split())
    assert done.code == 0
    assert done.err.count("--sampling-seq k is ignored") == 1
    assert "\x1b[32m" in done.out


def test_speculation_changes_no_token(outrider: Any) -> None:
    plain = document(outrider("run", *PAIR, "-p", "rocket", "--json", "--plain"))
    fast = document(outrider("run", *PAIR, "-p", "rocket", "--json", "--draft-p-min", "0"))
    assert fast["text"] == plain["text"] == ANSWERS["rocket"]
    assert [token["id"] for token in fast["tokens"]] == [token["id"] for token in plain["tokens"]]
    assert fast["speculation"]["accepted"] > 0
    assert plain["speculation"]["reason"] == "plain decoding was asked for (--plain)"


def test_json_is_one_document_and_nothing_else(outrider: Any) -> None:
    found = document(outrider("run", *PAIR, "-p", "rocket", "--json", "--policy", "fixed", "--draft-p-min", "0.6"))
    assert set(found) >= {"text", "tokens", "stop_reason", "timings", "speculation", "config"}
    assert "".join(token["text"] for token in found["tokens"]) == found["text"]
    assert {token["kind"] for token in found["tokens"]} <= {"accepted", "recovered", "bonus", "plain"}
    assert found["config"]["draft_p_min"] == {"value": 0.6, "origin": "command line"}
    assert found["config"]["draft_max"]["origin"] == "default"
    assert found["speculation"]["active"] is True


def test_colour_does_nothing_with_json(outrider: Any) -> None:
    done = outrider("run", *PAIR, "-p", "hi", "--json", "--color", "--show-rejected")
    assert document(done)["text"] == ANSWER
    assert "do nothing with --json" in done.err


def test_values_come_from_the_environment_too(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MODEL": "t", "DRAFT_MODEL": "d", "DRAFT_MAX": "3", "MAX_TOKENS": "5"}.items():
        monkeypatch.setenv(f"OUTRIDER_{name}", value)
    found = document(outrider("run", "-p", "hi", "--json", "-n", "4"))
    assert found["config"]["draft_max"] == {"value": 3, "origin": "environment"}
    assert found["config"]["max_tokens"] == {"value": 4, "origin": "command line"}
    assert found["stop_reason"] == "length"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-f", "FILE"), "rocket\r\n\n\n"),
        (("-f", "-"), "rocket\n"),
        (("-",), "rocket\n"),
        (("-fa", "-"), "rocket\n"),
        (("-p", "- rocket"), ""),
        (("--prompt=rocket",), ""),
        (("-e", "-p", r"rock\x65t"), ""),
    ],
)
def test_a_prompt_comes_from_one_place(
    outrider: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], expected: str
) -> None:
    file = tmp_path / "p.txt"
    file.write_bytes(expected.encode())
    monkeypatch.setattr(sys, "stdin", Stdin(expected.encode()))
    done = outrider("run", *PAIR, *(word.replace("FILE", str(file)) for word in words))
    assert (done.code, done.out) == (0, f"{ANSWERS['rocket']}\n")


def test_one_final_newline_of_a_file_is_no_part_of_the_prompt(outrider: Any, tmp_path: Path) -> None:
    counts = []
    for text in ("rocket", "rocket\n", "rocket\r\n", "\ufeffrocket", "rocket\n\n"):
        (tmp_path / "p").write_text(text, newline="", encoding="utf-8")
        counts.append(document(outrider("run", *PAIR, "-f", str(tmp_path / "p"), "--json"))["timings"]["prompt_tokens"])
    assert [count - counts[0] for count in counts] == [0, 0, 0, 0, 1]


def test_bundled_examples_run(outrider: Any) -> None:
    assert outrider("run", *PAIR, "--example", "lru-cache").code == 0
    wrong = outrider("run", *PAIR, "--example", "lru-cash")
    assert (wrong.code, wrong.out) == (2, "")
    assert "did you mean lru-cache?" in wrong.err


def test_raw_text_and_a_system_message_reach_the_model(outrider: Any) -> None:
    raw = document(outrider("run", *PAIR, "-p", "hi", "--raw", "-n", "3", "--json"))
    assert (raw["text"], raw["timings"]["prompt_tokens"]) == ("rrr", 2)
    assert document(outrider("run", *PAIR, "-p", "hi", "-no-cnv", "-n", "3", "--json"))["text"] == "rrr"
    system = document(outrider("run", *PAIR, "-p", "hi", "-sys", "be brief", "--json"))
    assert system["timings"]["prompt_tokens"] == len("hi") + len("be brief") + 3


def test_a_stop_string_ends_the_text_before_it(outrider: Any) -> None:
    done = outrider("run", *PAIR, "-p", "stop", "--stop", "STOP", "-r", "never")
    assert done.out == "before \n"
    assert "the stop string 'STOP' came" in done.err


def test_without_a_draft_model_the_reason_is_said(outrider: Any) -> None:
    done = outrider("run", "-m", "t", "-p", "hi")
    assert "speculation  off: there is no draft model (-md)" in done.err
    assert "plain decoding:" not in done.err


def test_colours_tell_who_proposed_a_token(outrider: Any) -> None:
    done = outrider("run", *PAIR, "-p", "hi", "--show-rejected", "--draft-p-min", "0")
    assert "\x1b[32m" in done.out  # accepted
    assert "\x1b[33m" in done.out  # recovered
    assert "\x1b[2;9m?" in done.out  # rejected: the draft's mistake comes first
    assert done.out.endswith("\x1b[0m\n")
    assert "tokens: plain" in done.err


def test_colour_off_and_auto_write_no_escapes_into_a_pipe(outrider: Any) -> None:
    for words in (("--color", "off"), ("--color", "auto"), ("-co=off",)):
        assert outrider("run", *PAIR, "-p", "hi", *words).out == f"{ANSWER}\n"


def test_a_pipe_gets_the_models_bytes_and_a_coloured_one_gets_pictures(outrider: Any) -> None:
    assert outrider("run", *PAIR, "-p", "escape").out == f"{ANSWERS['escape']}\n"
    colored = outrider("run", *PAIR, "-p", "escape", "--color").out
    assert "\x1b[31m" not in colored
    assert "\x07" not in colored
    assert "␛" in colored


def test_a_final_newline_is_not_doubled(outrider: Any) -> None:
    assert outrider("run", *PAIR, "-p", "lines").out == ANSWERS["lines"]


WRONG = {
    "no model": (("-p", "x"), 2, "there is no model"),
    "no prompt": (PAIR, 2, "there is no prompt"),
    "two prompts": ((*PAIR, "-p", "x", "-f", "y"), 2, "-p and -f contradict each other"),
    "three prompts": ((*PAIR, "-p", "x", "--example", "prose", "-"), 2, "-p and - and --example contradict"),
    "an empty prompt": ((*PAIR, "-p", " \n"), 9, "the prompt is empty"),
    "a missing prompt file": ((*PAIR, "-f", "/nowhere/p.txt"), 2, "No such file"),
    "a folder as prompt file": ((*PAIR, "-f", "/"), 2, "cannot be read"),
    "a prompt too long": ((*PAIR, "-p", "x" * 300, "-c", "64"), 10, "context"),
    "a negative number": ((*PAIR, "-p", "x", "-c", "-1"), 2, "-c is -1"),
    "not a number": ((*PAIR, "-p", "x", "--temp", "warm"), 2, "--temp is 'warm'"),
    "not a whole number": ((*PAIR, "-p", "x", "-n", "1.5"), 2, "-n is '1.5'"),
    "out of range": ((*PAIR, "-p", "x", "--draft-p-min", "1.5"), 2, "--draft-p-min is 1.5"),
    "a contradiction": ((*PAIR, "-p", "x", "--draft-min", "9", "--draft-max", "4"), 2, "--draft-min 9 is more than"),
    "a wrong word": ((*PAIR, "-p", "x", "--verify", "hope"), 2, "--verify is 'hope'"),
    "a wrong colour": ((*PAIR, "-p", "x", "--color=blue"), 2, "--color is 'blue'"),
    "rejected without colour": ((*PAIR, "-p", "x", "--color", "off", "--show-rejected"), 2, "contradicts --color off"),
    "raw with a system message": ((*PAIR, "-p", "x", "--raw", "-sys", "y"), 2, "--system-prompt contradicts --raw"),
    "another sampler chain": ((*PAIR, "-p", "x", "--temp", "1", "--sampling-seq", "k"), 2, "asks for another sampler chain"),
    "a stray word": ((*PAIR, "-p", "x", "stray"), 2, "there is no use for 'stray'"),
    "an empty stop string": ((*PAIR, "-p", "x", "--stop", ""), 2, "stop string is empty"),
    "a missing value": ((*PAIR, "-p"), 2, "-p needs a value"),
    "a model drafter without a draft": (("-m", "t", "-p", "x", "--drafter", "model"), 2, "--drafter model"),
}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(("words", "code", "message"), WRONG.values(), ids=WRONG)
def test_bad_input_is_one_line_and_a_hint(outrider: Any, words: tuple[str, ...], code: int, message: str, *, as_json: bool) -> None:
    done = outrider("run", *words, *(["--json"] if as_json and words[-1] != "-p" else []))
    assert done.code == code
    errors = [line for line in done.err.splitlines() if line.startswith("outrider: error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert done.err.splitlines()[-1].startswith("hint: ")
    assert "Traceback" not in done.err
    if "--json" not in words and as_json and words[-1] != "-p":
        assert json.loads(done.out)["error"]["exit_code"] == code
    else:
        assert done.out == ""


@pytest.mark.parametrize(("data", "message"), [(b"a\xff", "byte 1 is 0xff"), (b"\xed\xa0\x80", "no UTF-8"), (b"x" * 99, "more than")])
def test_a_prompt_that_is_no_text(outrider: Any, monkeypatch: pytest.MonkeyPatch, data: bytes, message: str) -> None:
    monkeypatch.setattr("outrider.cli.prompt.MAX_BYTES", 50)
    monkeypatch.setattr(sys, "stdin", Stdin(data))
    done = outrider("run", *PAIR, "-")
    assert done.code == 8
    assert message in done.err


def test_standard_input_may_be_closed(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in outrider("run", *PAIR, "-").err


def test_an_error_while_tokens_come_leaves_the_terminal_clean(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(settings: Settings, progress: Any = None) -> Any:
        from tests.cli.fakes import fake_load

        pair = fake_load(settings, progress)
        pair.engine.target.failures[len(pair.engine.target.passes) + 3] = OutOfMemoryError("no room", "buy some")  # type: ignore[attr-defined]
        return pair

    monkeypatch.setattr(loading, "load", load)
    done = outrider("run", *PAIR, "-p", "hi", "--color")
    assert done.code == 12
    assert done.out.endswith("\n")
    assert done.out.count("\x1b[0m") >= 1
    assert done.err.splitlines()[-2:] == ["outrider: error: no room", "hint: buy some"]
