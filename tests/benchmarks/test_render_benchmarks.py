"""docs/benchmarks.md agrees with the result files, and every kind of file has its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import humaneval_identity as identity
from outrider.bench.plan import CurvePlan
from scripts.render_benchmarks import BEGIN, END, PAGE, RESULTS, RenderError, render
from tests.bench.curves import PROVENANCE, Bench

EMPTY = f"# Page\n\n{BEGIN}\n\nold\n\n{END}\n"
ORIGIN = PROVENANCE | {"commit": "0123456789abcdef", "machine": {"cpu": {"model": "A processor", "usable": 2}}}


def curve(names: tuple[str, ...] = ("native", "llama")) -> dict[str, Any]:
    bench = Bench(CurvePlan(rows=(1, 2), prompt_rows=(8,), contexts=(3, 5), n_rounds=2), lambda name, rows, number: 0.01 * rows, names)
    bench.run.run()
    return bench.document() | {"provenance": ORIGIN}


def identical() -> dict[str, Any]:
    part = {"tokens": 128, "sha256": "0", "difference": None, "drafted": 90, "accepted": 60, "steps": 40}
    rows = [{"task": f"HumanEval/{index}", "greedy": part, "match": part} for index in range(3)]
    return identity.document(rows, 3, {}, ORIGIN)


def rendered(tmp_path: Path, *documents: dict[str, Any]) -> str:
    for index, document in enumerate(documents):
        (tmp_path / f"2026-12-0{index + 1}-some.json").write_text(json.dumps(document))
    return render(EMPTY, tmp_path)


def test_the_page_agrees_with_the_files() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == render(text), "run `make docs`"
    assert list(RESULTS.glob("*.json"))


def test_a_curve(tmp_path: Path) -> None:
    page = rendered(tmp_path, curve())
    assert "### Verify curve, 2026-12-01" in page
    assert "`tiny.gguf` on 2 CPUs of A processor; outrider 0, commit `0123456789`." in page
    assert "Made by `outrider bench curve -m tiny.gguf`." in page
    assert page.count("| rows | native fastest |") == 2
    assert "| 8 of a prompt | 80.0 | 80.0 | 8.00 | " in page
    assert "Machine ceiling: native 1.00x at 2 rows" in page
    assert "old" not in page


def test_a_curve_of_one_engine_has_no_ratio(tmp_path: Path) -> None:
    page = rendered(tmp_path, curve(("llama",)))
    assert "÷" not in page
    assert "| rows | llama fastest |" in page


def test_a_busy_machine_and_a_stopped_run_are_said(tmp_path: Path) -> None:
    document = curve()
    document["partial"] = True
    document["noise"] = {"spread": 0.5, "is_busy": True, "busy_from": 0.1}
    page = rendered(tmp_path, document)
    assert "stopped before its end" in page
    assert "Spread of T(1): 50%: the machine was busy" in page


def test_identity(tmp_path: Path) -> None:
    page = rendered(tmp_path, identical())
    assert "| greedy | 3 of 3 | 384 | 270 | 67% |" in page
    assert "| match | 3 of 3 |" in page


def test_the_newest_file_comes_first(tmp_path: Path) -> None:
    page = rendered(tmp_path, curve(), identical())
    assert page.index("2026-12-02-some.json") < page.index("2026-12-01-some.json")


def test_rendering_twice_changes_nothing(tmp_path: Path) -> None:
    page = rendered(tmp_path, curve(), identical())
    assert render(page, tmp_path) == page


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "a new one"}', '{"results": []}'])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(RenderError, match=r"odd\.json"):
        render(EMPTY, tmp_path)


@pytest.mark.parametrize("page", ["", BEGIN, END])
def test_a_page_without_marks_is_refused(tmp_path: Path, page: str) -> None:
    with pytest.raises(RenderError, match="lacks the line"):
        render(page, tmp_path)
