"""Write the tables of docs/benchmarks.md from the result files of benchmarks/results. `make docs` runs this.

Three kinds of file are known: what `outrider bench curve --json` writes, what benchmarks/humaneval_identity.py writes, and what
benchmarks/run_pair.py writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from outrider.bench.document import KIND as CURVE
from outrider.bench.table import ceilings_text, limits_text, milliseconds, percent, ratio
from scripts.generate_reference import table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN: Final = "<!-- results: written by scripts/render_benchmarks.py (`make docs`) -->"
END: Final = "<!-- end of results -->"
IDENTITY: Final = "humaneval identity"


class RenderError(Exception):
    """The page or a result file is not as it should be."""


def render(text: str, folder: Path = RESULTS) -> str:
    """The page with the results of a folder between its two marks, the newest first.

    Raises:
        RenderError: a mark is missing, or a file cannot be read.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RenderError(f"the page lacks the line {BEGIN if not begin else END}")
    sections = [section(path) for path in sorted(folder.glob("*.json"), key=lambda path: path.name, reverse=True)]
    return "\n\n".join([before + BEGIN, *sections, END + after])


def section(path: Path) -> str:
    """One file: what it is, where it comes from, its tables."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        kind = kind_of(document)
        title, body = RENDERERS[kind]
        parts = [f"### {title}, {document['provenance']['date'][:10]}", origin(path.name, document["provenance"]), *body(document)]
    except (ValueError, KeyError, TypeError) as error:
        raise RenderError(f"{path.name}: {type(error).__name__}: {error}") from error
    if document.get("partial"):
        parts.insert(1, "This measurement was stopped before its end.")
    return "\n\n".join(parts)


def kind_of(document: dict[str, Any]) -> str:
    """The kind of a result; files of run_pair.py don't name theirs."""
    return str(document["kind"]) if "kind" in document else "pair"


def origin(name: str, found: dict[str, Any]) -> str:
    """Machine, commit, models and the way to the file, in a sentence each."""
    cpu = found["machine"]["cpu"]
    models = " and ".join(f"`{model['file']}`" for model in found["models"].values())
    commit = f"commit `{found['commit'][:10]}`" if found["commit"] else "an installed package"
    changes = " with uncommitted changes" if found["uncommitted_changes"] else ""
    versions = found["versions"]
    llama = f", llama-cpp-python {versions['llama-cpp-python']}" if versions.get("llama-cpp-python") else ""
    command = f" Made by `{found['command']}`." if "command" in found else f" Made by `run_pair.py {' '.join(found['options'])}`."
    return (
        f"{models} on {cpu['usable']} CPUs of {cpu['model']}; outrider {versions['outrider']}{llama}, {commit}{changes}."
        f"{command} All figures: [{name}](../benchmarks/results/{name})."
    )


def curve_body(document: dict[str, Any]) -> Iterator[str]:
    """A table for each context, and what holds for all of them."""
    noise = document["noise"]
    clock = "CPU time of one thread" if document["clock"] == "cpu" else f"time on the wall, {document['threads']} threads"
    busy = ": the machine was busy, and all of this is rough" if noise["is_busy"] else ""
    yield f"Limits: {limits_text(document['limits'])}. Clock: {clock}. Spread of T(1): {percent(noise['spread'])}{busy}."
    for context in dict.fromkeys(point["context"] for point in document["points"]):
        points = [point for point in document["points"] if point["context"] == context]
        yield f"Context {context}, milliseconds:"
        yield table(curve_head(document), [curve_row(document, point) for point in points])
        yield f"Machine ceiling: {ceilings_text(document, context)}."


def curve_head(document: dict[str, Any]) -> tuple[str, ...]:
    """Names of the columns."""
    own = [f"{name} {word}".strip() for name in document["engines"] for word in ("fastest", "median", "T(b)/T(1)", "of limit")]
    both = ["llama ÷ native"] if len(document["engines"]) > 1 else []
    return ("rows", *own, *both, "memory limit", "int8 limit")


def curve_row(document: dict[str, Any], point: dict[str, Any]) -> tuple[str, ...]:
    """One pass."""
    cells = [str(point["rows"]) if point["rows"] == point["logits_rows"] else f"{point['rows']} of a prompt"]
    for name in document["engines"]:
        found = point["engines"].get(name)
        if found is None:
            cells += ["-"] * 4
        else:
            times = (milliseconds(found["min_ms"]), milliseconds(found["median_ms"]))
            cells += [*times, ratio(found["relative"]), percent(found["share_of_limit"])]
    if len(document["engines"]) > 1:
        cells.append(ratio(point["ratio"]))
    return (*cells, milliseconds(point["limit"]["stream_ms"]), milliseconds(point["limit"]["int8_ms"]))


def pair_body(document: dict[str, Any]) -> Iterator[str]:
    """Speeds of every configuration against native plain decoding."""
    first = document["results"][0]
    yield f"{first['prompts']} prompts ({first['workload']}), every configuration in turn."
    head = (
        "configuration",
        "tokens/s",
        "to native plain, median",
        "worst prompt",
        "accepted",
        "tokens per pass",
        "same text as its own plain",
    )
    yield table(head, [pair_row(row) for row in document["results"]])


def pair_row(row: dict[str, Any]) -> tuple[str, ...]:
    """One configuration."""
    speed = "-" if row["tokens_per_second"] is None else f"{row['tokens_per_second']:.1f}"
    ratios = (ratio(row["ratio_to_plain"]), ratio(row["worst_ratio_to_plain"]))
    same = f"{row['identical_to_plain']} of {row['prompts']}"
    return row["configuration"], speed, *ratios, percent(row["acceptance_rate"]), ratio(row["block_efficiency"]), same


def identity_body(document: dict[str, Any]) -> Iterator[str]:
    """How many texts are equal, in each mode."""
    head = ("verification", "prompts with equal tokens", "tokens", "drafted", "accepted")
    yield table(head, [identity_row(mode, found) for mode, found in document["summary"].items()])


def identity_row(mode: str, found: dict[str, Any]) -> tuple[str, ...]:
    """One mode."""
    same = f"{found['equal']} of {found['prompts']}"
    return mode, same, f"{found['tokens']:,}", f"{found['drafted']:,}", percent(found["acceptance_rate"])


RENDERERS: Final[dict[str, tuple[str, Callable[[dict[str, Any]], Iterator[str]]]]] = {
    CURVE: ("Verify curve", curve_body),
    IDENTITY: ("HumanEval, plain against speculative", identity_body),
    "pair": ("Plain against speculative decoding", pair_body),
}


def main() -> int:
    """Write the page."""
    try:
        PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    except RenderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("wrote docs/benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
