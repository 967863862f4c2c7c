"""`outrider bench curve` up to the loading of a model: bad command lines, the file of --json, and the progress line."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from outrider.cli import bench
from outrider.cli.json_file import JsonFile
from outrider.cli.main import build_parser
from outrider.cli.time_left import TimeLeft, duration
from outrider.errors import ConfigError


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.bench.engines._missing", lambda name: False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "there is no model to measure"),
        ("-m x --backend foo", "--backend is 'foo'"),
        ("-m x --rows 0", "--rows has 0"),
        ("-m x --rows 5000", "--rows has 5000"),
        ("-m x --rows one", "--rows is 'one'"),
        ("-m x --rows", "--rows needs a value"),
        ("-m x --rows none --prompt-rows none", "there are no rows to measure"),
        ("-m x --context 0", "--context has 0"),
        ("-m x --context none", "--context is 'none'"),
        ("-m x --repeat 0", "--repeat is 0"),
        ("-m x --repeat 1.5", "--repeat is '1.5'"),
        ("-m x --seconds nan", "--seconds is nan"),
        ("-m x --seconds soon", "--seconds is 'soon'"),
        ("-m x --repeat 2 --seconds 9", "--repeat and --seconds contradict each other"),
        ("-m x --cpu-time -t 2", "--cpu-time contradicts -t 2"),
        ("-m x -ctv q4_0 -fa off", "-ctv q4_0 contradicts -fa off"),
        ("-m x --draft-max 4", "there is no option --draft-max"),
        ("-m x extra", "unrecognized arguments: extra"),
    ],
)
def test_a_bad_line_is_one_line_and_a_hint(outrider: Any, words: str, message: str) -> None:
    done = outrider("bench", "curve", *words.split())
    assert done.code == 2
    assert done.out == ""
    error, hint = done.err.splitlines()
    assert error.startswith(f"outrider: error: {message}")
    assert hint.startswith("hint: ")


def test_a_file_that_is_not_there(outrider: Any, tmp_path: Path) -> None:
    done = outrider("bench", "curve", "-m", str(tmp_path / "no.gguf"))
    assert done.code == 5
    assert "no.gguf" in done.err


def test_a_command_that_does_not_exist(outrider: Any) -> None:
    assert "did you mean curve?" in outrider("bench", "curv").err
    assert outrider("bench").code == 2


@pytest.mark.parametrize(("asked", "word"), [("native", "native engine"), ("llama", "llama.cpp is not installed"), ("both", "llama.cpp")])
def test_an_engine_that_is_not_installed(outrider: Any, monkeypatch: pytest.MonkeyPatch, asked: str, word: str) -> None:
    monkeypatch.setattr("outrider.bench.engines._missing", lambda name: name == "llama" or asked == "native")
    done = outrider("bench", "curve", "-m", "x", "--backend", asked)
    assert done.code == 2
    assert word in done.err


def test_the_default_is_what_is_installed(outrider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.bench.engines._missing", lambda name: name == "llama")
    done = outrider("bench", "curve", "-m", "/no.gguf")
    assert "only native is installed, so nothing is compared with it" in done.err


def test_the_error_is_a_document_where_one_was_promised(outrider: Any, tmp_path: Path) -> None:
    for words in (["--json", "-"], ["--json=-"]):
        done = outrider("bench", "curve", "-m", "x", "--context", "0", *words)
        assert json.loads(done.out)["error"]["exit_code"] == 2
    done = outrider("bench", "curve", "-m", "x", "--context", "0", "--json", str(tmp_path / "out.json"))
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_plan_of_a_line() -> None:
    args = build_parser().parse_args("bench curve -m x --rows 1..3,8 --prompt-rows none -c 2k --seconds 30 --cpu-time".split())
    plan = bench.curve_plan(args)
    assert (plan.rows, plan.prompt_rows, plan.contexts) == ((1, 2, 3, 8), (), (2048,))
    assert (plan.n_rounds, plan.seconds, plan.cpu_time) == (None, 30.0, True)


def test_the_default_plan() -> None:
    plan = bench.curve_plan(build_parser().parse_args("bench curve -m x".split()))
    assert (plan.rows, plan.prompt_rows) == ((*range(1, 18), 24, 32, 33, 48, 64), (128, 256, 512))
    assert (plan.contexts, plan.n_rounds, plan.seconds, plan.cpu_time) == ((256,), 5, None, False)


def test_a_document_replaces_a_file_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    with JsonFile(str(path)) as target:
        assert path.read_text() == "old"
        target.save({"n": 1})
        assert json.loads(path.read_text()) == {"n": 1}
        target.finish({"n": 2})
    assert json.loads(path.read_text()) == {"n": 2}
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "there" / "out.json")
    with JsonFile(str(link)) as target:
        target.finish({"n": 1})
    assert link.is_symlink()
    assert json.loads((tmp_path / "there" / "out.json").read_text()) == {"n": 1}


def test_a_run_without_a_result_leaves_nothing(tmp_path: Path) -> None:
    with JsonFile(str(tmp_path / "out.json")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_not_replaced() -> None:
    with JsonFile(os.devnull) as target:
        target.finish({"n": 1})
    assert Path(os.devnull).is_char_device()


def test_standard_output_gets_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    with JsonFile("-") as target:
        target.save({"n": 1})
        target.finish({"n": 2})
    assert json.loads(capsys.readouterr().out) == {"n": 2}


@pytest.mark.parametrize("name", ["", "folder", "no/such/out.json", "file/out.json"])
def test_where_nothing_can_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        JsonFile(str(tmp_path / name))


def test_a_terminal_has_one_line_that_renews_itself() -> None:
    now = [0.0]
    stream = Tty()
    left = TimeLeft(stream, lambda: now[0], columns=30)
    left.advance(0.0, "round 1")
    now[0] = 0.1
    left.advance(0.01, "too soon")
    now[0] = 10.0
    left.advance(0.25, "round 2, context 256 and much more text")
    left.hide()
    lines = stream.getvalue().split("\r\x1b[K")
    assert lines == ["", "0 %: round 1", "25 %, 30 s left: round 2, con", ""]
    assert max(map(len, lines)) < 30


def test_elsewhere_there_is_a_line_for_every_tenth() -> None:
    now = [0.0]
    stream = io.StringIO()
    left = TimeLeft(stream, lambda: now[0])
    for step in range(101):
        now[0] = float(step)
        left.advance(step / 100, f"pass {step}")
    left.hide()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "10 %, 1 min 30 s left: pass 10"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (59, "59 s"), (61, "1 min 01 s"), (3599.5, "1 h 00 min"), (7325, "2 h 02 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
