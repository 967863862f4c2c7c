"""`outrider doctor`: what is installed, what this machine offers, and whether a pair would speculate."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from outrider.cli.examination import examine, machine
from outrider.cli.output import one_line, print_json, report, write
from outrider.cli.pair import read_settings
from outrider.errors import OutriderError, exit_code
from outrider.native.options import ISA_VARIABLE

_LABEL_WIDTH = 16


def doctor(args: argparse.Namespace) -> int:
    """Examine; the exit code is that of what stands in the way, or 0."""
    settings = read_settings(args)
    found = machine()
    error: OutriderError | None = None
    if settings.model.model is not None:
        try:
            found["pair"] = examine(settings)
        except OutriderError as caught:
            error = caught
            found["pair"] = {"error": {"type": type(caught).__name__, "message": caught.message, "hint": caught.hint}}
    if args.json:
        print_json(found)
    else:
        write(sys.stdout, "\n".join(_lines(found)) + "\n")
    if error is not None:
        report(error, as_json=False)
        return exit_code(error)
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    cpu, memory, models = found["cpu"], found["memory"], found["models"]
    rows = [
        ("outrider", f"{found['outrider']} on Python {found['python']}, {found['platform']}"),
        ("packages", ", ".join(f"{name} {version or 'MISSING'}" for name, version in found["packages"].items())),
        ("processor", f"{cpu['model']}: {cpu['usable']} of {cpu['logical']} CPUs usable"),
        ("instructions", " ".join(cpu["instructions"]) or "unknown"),
        ("memory", f"{_gigabytes(memory['available_bytes'])} available of {_gigabytes(memory['total_bytes'])}"),
        *_backend_rows(found["backends"]),
        ("models in", models["directory"]),
        *(("", f"{model['name']}: {model['state']}, {_gigabytes(model['bytes'])}") for model in models["known"]),
        *_pair_rows(found.get("pair")),
    ]
    return [f"{label.ljust(_LABEL_WIDTH)}{one_line(str(text))}" for label, text in rows]


def _backend_rows(backends: list[dict[str, Any]]) -> list[tuple[str, str]]:
    rows = []
    for backend in backends:
        label = f"{backend['name']} backend"
        if not backend["installed"]:
            rows.append((label, f"not installed: {backend['hint']}"))
        elif backend["error"]:
            rows.append((label, f"NOT USABLE: {backend['error']} ({backend['hint']})"))
        else:
            first, *others = _native_lines(backend) if backend["name"] == "native" else _llama_lines(backend)
            rows += [(label, first), *(("", line) for line in others)]
    return rows


def _native_lines(backend: dict[str, Any]) -> list[str]:
    asked = backend["override"]
    why = f"{ISA_VARIABLE}={asked}" if asked else "the best"
    of = f"{why} of {' '.join(backend['kernels'])}"
    return [f"{backend['chosen']} kernels ({of}), {backend['threads']} threads, huge pages: {backend['huge_pages'] or 'unknown'}"]


def _llama_lines(backend: dict[str, Any]) -> list[str]:
    lines = [f"{backend['package']}, kernels for {' '.join(backend['kernels'])}"]
    for device in backend["devices"]:
        size = f", {_gigabytes(device['total_bytes'])}" if device["total_bytes"] else ""
        lines.append(f"device {device['name']}: {device['description']} ({device['kind']}{size})")
    return lines


def _pair_rows(pair: dict[str, Any] | None) -> list[tuple[str, str]]:
    if pair is None:
        return [("pair", "none examined: name one with -m TARGET -md DRAFT")]
    if "error" in pair:
        return [("pair", "does not work, see below")]
    rows = [("target", _model(pair["target"]))]
    if pair["draft"] is not None:
        rows.append(("draft", _model(pair["draft"])))
    speculation = pair["speculation"]
    rows.append(("speculation", "active" if speculation["active"] else f"inactive: {speculation['reason']}"))
    if (pass_ms := pair["plain_step_ms"]) is not None:
        rows.append(("plain pass", f"{pass_ms:.1f} ms for one token, or {1000 / pass_ms:.1f} tokens/s without speculation"))
    return [*rows, *(("note", notice) for notice in pair["notices"])]


def _model(model: dict[str, Any]) -> str:
    exact = "bit-exact" if model["bit_exact"] else "not bit-exact: text may differ from plain decoding at near ties"
    return f"{model['backend']} on {model['device']}, context {model['n_context']}, {_cache(model)}, rollback {model['rollback']}, {exact}"


def _cache(model: dict[str, Any]) -> str:
    keys, values = model["cache_type_k"], model["cache_type_v"]
    return f"{keys} cache" if keys == values else f"cache of {keys} keys and {values} values"


def _gigabytes(n_bytes: int | None) -> str:
    return "unknown" if n_bytes is None else f"{n_bytes / 1e9:.1f} GB"
