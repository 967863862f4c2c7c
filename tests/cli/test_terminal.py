"""What a person sees: colours, Ctrl-C, chat and pipes, on a real pseudo-terminal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from outrider.text.template import ChatTemplate
from tests.cli.fakes import ANSWER, ANSWERS, TEMPLATE
from tests.cli.terminal import CTRL_C, CTRL_D, FAKE, PATIENCE_S, Terminal, environment

PAIR = ("-m", "target", "-md", "draft")
SLOW = {"FAKE_DELAY_S": "0.02"}


def test_a_terminal_gets_the_text_then_dimmed_statistics() -> None:
    with Terminal("run", *PAIR, "-p", "hi") as terminal:
        assert terminal.finish() == 0
    assert f"{ANSWER}\n\nspeed " in terminal.text
    assert "\x1b[2mspeed" in terminal.raw
    assert "\x1b[32m" not in terminal.raw
    assert "loading the models...\x1b[0m\r\x1b[K" in terminal.raw


def test_no_color_leaves_only_the_cursor_movement() -> None:
    with Terminal("run", *PAIR, "-p", "hi", "--color", "auto", NO_COLOR="1") as terminal:
        assert terminal.finish() == 0
    assert terminal.raw.count("\x1b") == terminal.raw.count("\x1b[K") == 1


def test_color_auto_colours_a_terminal() -> None:
    with Terminal("run", *PAIR, "-p", "hi", "--color", "auto") as terminal:
        assert terminal.finish() == 0
    assert "\x1b[32m" in terminal.raw
    assert "tokens: plain, accepted draft, recovered, bonus\n" in terminal.text


def test_the_models_own_escapes_do_not_reach_a_terminal() -> None:
    with Terminal("run", *PAIR, "-p", "escape") as terminal:
        assert terminal.finish() == 0
    assert "\x1b[31m" not in terminal.raw
    assert "\x07" not in terminal.raw
    assert "a␛[31mred␛[0m␇z" in terminal.text


def test_a_narrow_terminal_wraps_the_statistics() -> None:
    with Terminal("run", *PAIR, "-p", "hi", columns=44) as terminal:
        assert terminal.finish() == 0
    statistics = terminal.text[terminal.text.index("speed") :].splitlines()
    assert len(statistics) > 4
    assert max(map(len, statistics)) < 44


def test_ctrl_c_stops_the_answer_and_keeps_the_statistics() -> None:
    with Terminal("run", *PAIR, "-p", "long", "--color", **SLOW) as terminal:
        terminal.wait_for("la la la")
        terminal.send(CTRL_C)
        assert terminal.finish() == 130
    assert "stopped      Ctrl-C, after" in terminal.text
    assert "Traceback" not in terminal.text
    assert terminal.raw.index("\x1b[0m\r\n") < terminal.raw.index("speed")


def test_ctrl_c_with_json_still_gives_the_document() -> None:
    with Terminal("run", *PAIR, "-p", "long", "--json", stdout=subprocess.PIPE, FAKE_DELAY_S="0.2") as terminal:
        terminal.wait_for("this pair is a fake")
        terminal.send(CTRL_C)
        assert terminal.finish() == 130
        assert terminal.process.stdout is not None
        found = json.loads(terminal.process.stdout.read())
    assert found["stop_reason"] == "cancelled"


def test_a_second_ctrl_c_ends_a_program_that_is_stuck() -> None:
    with Terminal("run", *PAIR, "-p", "long", FAKE_STUCK_AFTER="8") as terminal:
        terminal.wait_for("stuck")
        code = None
        while code is None:  # two that come at once count as one
            terminal.send(CTRL_C)
            code = terminal.poll(0.2)
        assert code == -signal.SIGINT
        assert terminal.finish() == code
    assert terminal.raw.endswith("\x1b[0m\r\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, str(FAKE), "run", *PAIR, "-p", "long"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(FAKE_DELAY_S="0.005")) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"la la"
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(PATIENCE_S) == 141
    assert errors == "outrider: note: this pair is a fake\n"


@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "words", [("run", "-p", "hi", *PAIR), ("run", "-p", "hi", "--json", *PAIR), ("models", "list"), ("--help",)], ids=" ".join
)
def test_a_full_disk_is_a_clean_error(words: tuple[str, ...], buffering: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123  # a device
        done = subprocess.run(
            [sys.executable, str(FAKE), *words], stdout=full, stderr=subprocess.PIPE, env=environment(**buffering), check=False
        )
    assert done.returncode == 70
    assert "outrider: error: the output cannot be written: No space left on device" in done.stderr.decode()
    assert "Exception ignored" not in done.stderr.decode()


def test_closed_streams_are_no_error() -> None:
    shell = f'"$0" "$1" run {" ".join(PAIR)} -p hi >&- 2>&-'
    done = subprocess.run(["/bin/sh", "-c", shell, sys.executable, str(FAKE)], capture_output=True, env=environment(), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_pull_is_shown_in_place_of_the_waiting_line() -> None:
    with Terminal("run", *PAIR, "-p", "hi", FAKE_PULL="1") as terminal:
        assert terminal.finish() == 0
    waiting = "\x1b[2mloading the models...\x1b[0m\r"
    assert terminal.raw.startswith(f"{waiting}\x1b[K")
    assert "target: from a fake\n" in terminal.text
    assert terminal.raw.count(waiting) == 2
    assert terminal.raw.index("from a fake") < terminal.raw.rindex(waiting) < terminal.raw.index("this pair is a fake")


def test_chat_talks_on_a_terminal() -> None:
    with Terminal("chat", *PAIR) as terminal:
        terminal.wait_for("you> ")
        terminal.send("hi\r")
        terminal.wait_for(f"target> {ANSWER}")
        terminal.wait_for("you> ", count=2)
        terminal.send("lines\r")
        terminal.wait_for(f"target> {ANSWERS['lines']}")
        terminal.wait_for("you> ", count=3)
        terminal.send("/stats\r")
        terminal.wait_for("speculation ")
        terminal.wait_for("you> ", count=4)
        terminal.send(CTRL_D)
        assert terminal.finish() == 0
    assert "/help lists the commands" in terminal.text


def test_ctrl_c_in_a_chat_stops_the_answer_not_the_program() -> None:
    with Terminal("chat", *PAIR, **SLOW) as terminal:
        terminal.wait_for("you> ")
        terminal.send("long\r")
        terminal.wait_for("la la la")
        terminal.send(CTRL_C)
        terminal.wait_for("stopped: Ctrl-C")
        terminal.wait_for("you> ", count=2)
        terminal.send("half a mess")
        terminal.wait_for("half a mess")
        time.sleep(0.2)  # CPython 3.11 to 3.13 notice a signal between showing a key and waiting for the next one only then
        terminal.send(CTRL_C)
        terminal.wait_for("you> ", count=3)
        terminal.send("rocket\r")
        terminal.wait_for(f"target> {ANSWERS['rocket']}")
        terminal.wait_for("you> ", count=4)
        terminal.send("/exit\r")
        assert terminal.finish() == 0


def test_a_prompt_typed_on_the_terminal() -> None:
    with Terminal("run", *PAIR, "-") as terminal:
        terminal.wait_for("Ctrl-D")
        terminal.send("rocket\r" + CTRL_D)
        assert terminal.finish() == 0
    assert ANSWERS["rocket"] in terminal.text


def test_the_fake_template_is_sound() -> None:
    assert ChatTemplate(TEMPLATE).render([{"role": "user", "content": "x"}]) == "<|user|>x<|assistant|>"
