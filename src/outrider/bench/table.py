"""A verify curve for a reader: one table for each context, made from the document alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

WIDE_COLUMNS: Final = 100
"""Columns from which quartiles find room."""

NOTHING: Final = "-"


class CurveView:
    """What `rich` prints of a document; narrow terminals get fewer columns.

    Args:
        document: as `bench.document` makes it.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_wide = options.max_width >= WIDE_COLUMNS
        for line in headline(self._document):
            yield Text(line, style="bold" if line.startswith("partial") else "")
        contexts = dict.fromkeys(point["context"] for point in self._document["points"])
        for context in contexts:
            yield Text(f"\ncontext {context}", style="bold")
            yield _table(self._document, [point for point in self._document["points"] if point["context"] == context], is_wide=is_wide)
            yield Text(f"ceiling: {ceilings_text(self._document, context)}")
        for line in legend(self._document):
            yield Text(line, style="dim")


def headline(document: Mapping[str, Any]) -> Iterator[str]:
    """What was measured, on what; one fact a line."""
    if document["partial"]:
        yield "partial: the measurement was stopped before its end"
    model = next(iter(document["provenance"]["models"].values()))
    yield f"model     {model['file']}"
    for name, engine in document["engines"].items():
        yield f"{name.ljust(9)} {engine['version']}, {engine['device']}, cache {engine['cache']}"
    yield f"machine   {document['provenance']['machine']['cpu']['model']}, {document['threads']} {_plural('thread', document['threads'])}"
    yield f"limits    {limits_text(document['limits'])}"
    yield f"clock     {_clock(document['clock'])}; T(1) spread {percent(document['noise']['spread'])}{_busy(document['noise'])}"


def limits_text(limits: Mapping[str, Any]) -> str:
    """Both limits with their units."""
    if limits["stream_gb_per_s"] is None:
        return "not measured: this installation has no native core"
    memory, int8 = limits["stream_gb_per_s"], limits["int8_gmac_per_s"]
    return f"memory {memory:.1f} GB/s, int8 {int8:.0f} GMAC/s ({limits['isa']}), best of {len(limits['stream_gb_per_s_samples'])} probes"


def ceilings_text(document: Mapping[str, Any], context: int) -> str:
    """What speculation could gain at best at a context, for each engine."""
    found = [ceiling for ceiling in document["ceilings"] if ceiling["context"] == context]
    return ", ".join(f"{one['engine']} {ratio(one['value'])}x at {one['rows']} {_plural('row', one['rows'])}" for one in found)


def legend(document: Mapping[str, Any]) -> Iterator[str]:
    """What the columns mean."""
    yield ""
    yield (
        "ms: a whole pass, the best token of every row included. T/T1: against one row. lim: share of the larger limit that the"
        " fastest pass reached. memory: ms for weights and cache at the measured GB/s; int8: ms for the weights' multiplications at"
        " the measured GMAC/s, attention left out."
    )
    yield "ceiling: the largest b T(1)/T(b), which a perfect drafter at no cost would gain."
    if len(document["engines"]) > 1:
        yield "llama/native: how many times as long llama.cpp takes; like T/T1 the median of the ratios inside a round."
    if any(point["rows"] != point["logits_rows"] for point in document["points"]):
        yield "*: a pass over a prompt; only its last row has logits."


def _table(document: Mapping[str, Any], points: Seq[Mapping[str, Any]], *, is_wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2 if is_wide else 1, 0, 0), header_style="bold")
    for heading in _headings(list(document["engines"]), is_wide=is_wide):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in points:
        table.add_row(*_cells(point, list(document["engines"]), is_wide=is_wide))
    return table


def _headings(engines: Seq[str], *, is_wide: bool) -> Iterator[str]:
    yield "\nrows"
    for name in engines:
        yield f"{name}\nmin ms"
        yield "\nmedian"
        if is_wide:
            yield "\nquartiles"
        yield "\nT/T1"
        yield "\nlim"
    if len(engines) > 1:
        yield "llama/\nnative"
    yield "memory\nms"
    yield "int8\nms"


def _cells(point: Mapping[str, Any], engines: Seq[str], *, is_wide: bool) -> Iterator[str]:
    yield f"{point['rows']}{'' if point['rows'] == point['logits_rows'] else '*'}"
    for name in engines:
        found = point["engines"].get(name)
        if found is None:
            yield from [NOTHING] * (5 if is_wide else 4)
            continue
        yield milliseconds(found["min_ms"])
        yield milliseconds(found["median_ms"])
        if is_wide:
            yield f"{milliseconds(found['q1_ms'])}-{milliseconds(found['q3_ms'])}"
        yield ratio(found["relative"])
        yield percent(found["share_of_limit"])
    if len(engines) > 1:
        yield ratio(point["ratio"])
    yield milliseconds(point["limit"]["stream_ms"])
    yield milliseconds(point["limit"]["int8_ms"])


def milliseconds(value: float | None) -> str:
    """Three or four digits that matter."""
    if value is None:
        return NOTHING
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def ratio(value: float | None) -> str:
    """Two decimals, one from 10 on."""
    return NOTHING if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def percent(value: float | None) -> str:
    """Whole percent."""
    return NOTHING if value is None else f"{value * 100:.0f}%"


def _clock(word: str) -> str:
    return "CPU time of one thread" if word == "cpu" else "time on the wall"


def _busy(noise: Mapping[str, Any]) -> str:
    return ": the machine is BUSY" if noise["is_busy"] else ""


def _plural(word: str, n: int) -> str:
    return word if n == 1 else f"{word}s"
