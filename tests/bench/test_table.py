"""The table: nothing of it is cut at 80 columns, and it says what a reader must know."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from outrider.bench.plan import CurvePlan
from outrider.bench.table import CurveView, milliseconds, percent, ratio
from tests.bench.curves import Bench

PLAN = CurvePlan(rows=(1, 2, 64), prompt_rows=(512,), contexts=(256, 300), n_rounds=2)


def document(names: tuple[str, ...] = ("native", "llama")) -> dict[str, Any]:
    bench = Bench(PLAN, lambda name, rows, number: 0.0123456 * (1 + rows / 4) * (2.5 if name == "llama" else 1), names)
    bench.run.run()
    return bench.document()


def printed(found: dict[str, Any], columns: int) -> str:
    stream = io.StringIO()
    Console(file=stream, width=columns, highlight=False, color_system=None).print(CurveView(found))
    return stream.getvalue()


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("names", [("native",), ("llama",), ("native", "llama")])
def test_every_row_is_whole(columns: int, names: tuple[str, ...]) -> None:
    text = printed(document(names), columns)
    lines = [line.split() for line in text.splitlines() if line[:4].strip().rstrip("*").isdecimal()]
    n_cells = 1 + len(names) * (4 if columns < 100 else 5) + (len(names) > 1) + 2
    assert [line[0] for line in lines] == ["1", "2", "64", "512*"] * 2
    assert {len(line) for line in lines} == {n_cells}
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= columns


def test_the_head_says_what_was_measured() -> None:
    text = printed(document(), 120)
    for words in ("tiny.gguf", "native 1, cpu, cache f16/f16", "A processor, 2 threads", "memory 10.0 GB/s, int8 120 GMAC/s (avx2)"):
        assert words in text
    assert "time on the wall; T(1) spread 0%" in text
    assert "context 256" in text
    assert "context 300" in text
    assert "ceiling: native 4.71x at 64 rows, llama 4.71x at 64 rows" in text
    assert "partial" not in text


def test_what_a_reader_must_not_miss() -> None:
    found = document()
    found["partial"] = True
    found["clock"] = "cpu"
    found["noise"] = {"spread": 0.34, "is_busy": True, "busy_from": 0.1}
    text = printed(found, 120)
    assert text.startswith("partial: ")
    assert "CPU time of one thread; T(1) spread 34%: the machine is BUSY" in text


def test_without_a_core_there_are_no_limits() -> None:
    found = document(("llama",))
    found["limits"]["stream_gb_per_s"] = None
    for point in found["points"]:
        point["limit"] |= {"stream_ms": None, "int8_ms": None}
        point["engines"]["llama"]["share_of_limit"] = None
    text = printed(found, 80)
    assert "not measured" in text
    assert next(line for line in text.splitlines() if line.startswith("   1")).split()[-3:] == ["-", "-", "-"]


def test_numbers_have_the_digits_that_matter() -> None:
    assert [milliseconds(value) for value in (None, 0.1234, 9.994, 41.26, 999.9, 12345.6)] == [
        "-",
        "0.12",
        "9.99",
        "41.3",
        "999.9",
        "12346",
    ]
    assert [ratio(value) for value in (None, 1.234, 12.34)] == ["-", "1.23", "12.3"]
    assert [percent(value) for value in (None, 0.876, 1.2)] == ["-", "88%", "120%"]
