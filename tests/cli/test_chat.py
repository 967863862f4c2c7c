"""`outrider chat` from a script on standard input."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from subprocess import PIPE
from typing import Any

import pytest

from tests.cli.conftest import Done
from tests.cli.fakes import ANSWER, ANSWERS
from tests.cli.terminal import FAKE, PATIENCE_S, environment

PAIR = ("-m", "folder/target.gguf", "-md", "draft")


@pytest.fixture
def chat(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """`chat("hi\\n", "--json")`: a script, then further words."""

    def run(script: str | bytes, *words: str) -> Done:
        data = script.encode() if isinstance(script, str) else script
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        done: Done = outrider("chat", *PAIR, *words)
        return done

    return run


def test_a_script_gives_a_transcript(chat: Any) -> None:
    done = chat("hi\nrocket")
    assert done.code == 0
    assert done.out == f"you> hi\ntarget> {ANSWER}\n\nyou> rocket\ntarget> {ANSWERS['rocket']}\n\n"
    assert done.err.count("drafted accepted") == 2


def test_the_second_turn_reads_only_what_is_new(chat: Any) -> None:
    turns = json.loads(chat("hi\nrocket\n", "--json").out)["turns"]
    assert [turn["message"] for turn in turns] == ["hi", "rocket"]
    assert [turn["text"] for turn in turns] == [ANSWER, ANSWERS["rocket"]]
    second = turns[1]["timings"]
    new = len("<|end|>rocket") - len("<|end|>") + 3  # the end of turn 1, the user's mark, the text, the assistant's mark
    assert new <= second["prompt_evaluated"] <= new + 1  # perhaps with the last token of turn 1, which was pending
    assert second["prompt_tokens"] > second["prompt_evaluated"]
    assert second["draft_prompt_evaluated"] < second["prompt_tokens"]


@pytest.mark.parametrize("words", [["-p", "hi"], ["--file", "x"], ["--example", "prose"]])
def test_a_prompt_belongs_to_run(chat: Any, words: list[str]) -> None:
    done = chat("", *words)
    assert done.code == 2
    assert f"there is no option {words[0]}" in done.err
    assert "for one prompt use `outrider run`" in done.err


def test_typed_marks_are_text_in_this_turn_and_the_next(chat: Any) -> None:
    message = "what is <|end|>?"
    first, second = json.loads(chat(f"{message}\nrocket\n", "--json").out)["turns"]
    assert first["timings"]["prompt_tokens"] == len(message) + 2
    assert second["timings"]["prompt_evaluated"] <= len("rocket") + 4


def test_messages_of_several_lines(chat: Any) -> None:
    script = 'one\\\ntwo\n"""three\nfour"""\n"""\nfive\n\nsix\n"""\n'
    turns = json.loads(chat(script, "--json").out)["turns"]
    assert [turn["message"] for turn in turns] == ["one\ntwo", "three\nfour", "five\n\nsix"]


@pytest.mark.parametrize("script", ["open\\", '"""open', "open\\\n", '"""\nopen\n'])
def test_a_message_that_the_input_cuts_short_still_counts(chat: Any, script: str) -> None:
    turns = json.loads(chat(script, "--json").out)["turns"]
    assert [turn["message"].strip() for turn in turns] == ["open"]


def test_commands(chat: Any) -> None:
    done = chat("/stats\n/help\nhi\n/stats\n/reset\n/rest\n\n /help\n/exit\nnever\n")
    assert done.code == 0
    assert "There is no answer yet." in done.err
    assert "/reset   forget the conversation" in done.err
    assert "speculation  " in done.err
    assert "The conversation is forgotten." in done.err
    assert "There is no command /rest: did you mean /reset?" in done.err
    assert done.out.count("target> ") == 2
    assert "never" not in done.out


def test_reset_forgets(chat: Any) -> None:
    turns = json.loads(chat("hi\nhi\n/reset\nhi\n", "--json").out)["turns"]
    lengths = [turn["timings"]["prompt_tokens"] for turn in turns]
    assert lengths[1] > lengths[0] == lengths[2]


def test_a_message_that_does_not_fit_is_said_and_the_chat_goes_on(chat: Any) -> None:
    script = f"{'x' * 500}\nrocket\n"
    done = chat(script, "-c", "200")
    assert done.code == 0
    assert done.err.count("outrider: error: ") == 1
    assert f"target> {ANSWERS['rocket']}\n" in done.out
    turns = json.loads(chat(script, "-c", "200", "--json").out)["turns"]
    assert (turns[0]["error"]["type"], turns[0]["error"]["exit_code"]) == ("ContextLengthError", 10)
    assert turns[1]["text"] == ANSWERS["rocket"]


def test_a_system_message_and_colours(chat: Any) -> None:
    done = chat("hi\n", "-sys", "be brief", "--color", "--draft-p-min", "0")
    assert "\x1b[32m" in done.out
    assert "tokens: plain" in done.err


@pytest.mark.parametrize(
    ("script", "words", "code", "message"),
    [
        ("hi\n", ("--raw",), 2, "--raw contradicts"),
        ("hi\n", ("-p", "x"), 2, "there is no option -p"),
        (b"a\xffb\n", (), 8, "no UTF-8"),
    ],
)
def test_what_a_chat_cannot_do(chat: Any, script: str | bytes, words: tuple[str, ...], code: int, message: str) -> None:
    done = chat(script, *words)
    assert done.code == code
    assert message in done.err


def test_no_standard_input_is_an_empty_chat(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert outrider("chat", *PAIR).code == 0


def test_a_conversation_that_is_full_can_be_forgotten(chat: Any) -> None:
    done = chat("hi\n" * 9 + "/reset\nrocket\n", "-c", "200")
    assert done.code == 0
    assert "/reset" in done.err.split("outrider: error: ")[1]
    assert done.out.endswith(f"target> {ANSWERS['rocket']}\n\n")


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_ctrl_c_ends_a_chat_with_a_script_that_never_ends(words: tuple[str, ...]) -> None:
    command = [sys.executable, str(FAKE), "chat", *PAIR, *words]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment(PYTHONUNBUFFERED="1")) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"/help\n" + b"hi\n" + b"/nonsense\n")
        process.stdin.flush()
        while b"no command" not in (line := process.stderr.readline()):  # it waits for more now, or is about to
            assert line
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 130
    assert b"interrupted" in err
    if words:
        assert [turn["text"] for turn in json.loads(out)["turns"]] == [ANSWER]
