"""`outrider bench curve`: what a pass over b rows costs, beside what it must cost."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from outrider.bench.counts import parse_counts
from outrider.bench.curve import CurveRun, Instruments
from outrider.bench.document import CurveFacts, curve_document
from outrider.bench.engines import Engines, check_room, engine_names, instruction_set, probe, probed_isa
from outrider.bench.limits import pass_cost
from outrider.bench.plan import MAX_ROWS, CurvePlan
from outrider.bench.provenance import load_average, model_record, provenance
from outrider.cli.examination import machine
from outrider.cli.interrupt import StopOnInterrupt
from outrider.cli.json_file import JsonFile
from outrider.cli.output import note, report, writing
from outrider.cli.pair import read_settings
from outrider.cli.time_left import TimeLeft
from outrider.cli.waiting import Waiting
from outrider.config import ModelOptions
from outrider.errors import EXIT_CODES, CancelledError, ConfigError, OutriderError
from outrider.model_header import ModelHeader
from outrider.models.resolve import ensure

_MAX_CONTEXT = 1 << 24
_MAX_SECONDS = 7 * 24 * 3600
NO_ROWS = "none"


def curve(args: argparse.Namespace) -> int:
    """Measure, and show or write the document; 130 if Ctrl-C cut it short."""
    options = read_settings(args).model
    plan = curve_plan(args)
    if options.model is None:
        raise ConfigError("there is no model to measure", "name one with -m: a GGUF file, or a name from `outrider models list`")
    if plan.cpu_time and options.threads > 1:
        raise ConfigError(f"--cpu-time contradicts -t {options.threads}", "only with one thread is the thread's time the pass's: use -t 1")
    asked = args.engines or (options.backend if options.backend != "auto" else None)
    names = engine_names(asked)
    if asked is None and len(names) == 1:
        note(f"only {names[0]} is installed, so nothing is compared with it")
    with instruction_set(args.isa), JsonFile(args.json_file) as target:
        header = _read_model(options.model)
        check_room(header, plan)
        wanted = replace(options, threads=1) if plan.cpu_time else options
        return _measure(_Job(wanted, header, plan, names, args.words), target)


def curve_plan(args: argparse.Namespace) -> CurvePlan:
    """The plan that the command line describes.

    Raises:
        ConfigError: what is wrong with it.
    """
    if args.repeat is not None and args.seconds is not None:
        raise ConfigError("--repeat and --seconds contradict each other", "one of the two says when to stop")
    seconds = None if args.seconds is None else _number("--seconds", args.seconds, float, 1, _MAX_SECONDS)
    n_rounds = None if seconds is not None else _number("--repeat", args.repeat or "5", int, 1, 10_000)
    return CurvePlan(
        rows=() if args.rows == NO_ROWS else parse_counts("--rows", args.rows, 1, MAX_ROWS),
        prompt_rows=() if args.prompt_rows == NO_ROWS else parse_counts("--prompt-rows", args.prompt_rows, 1, MAX_ROWS),
        contexts=parse_counts("--context", args.contexts, 1, _MAX_CONTEXT),
        n_rounds=None if n_rounds is None else int(n_rounds),
        seconds=seconds,
        cpu_time=args.cpu_time,
    )


def _number(flag: str, text: str, kind: Callable[[str], float], low: float, high: float) -> float:
    try:
        value = kind(text)
    except ValueError:
        raise ConfigError(f"{flag} is {text!r}", f"it must be a {'whole ' if kind is int else ''}number") from None
    if not low <= value <= high:
        raise ConfigError(f"{flag} is {text}", f"it must be from {low} to {high}")
    return value


def _read_model(name: str) -> ModelHeader:
    with Waiting(sys.stderr, "looking for the model...") as waiting:
        return ModelHeader.read(ensure(name, waiting.progress(name)))


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A measurement whose options have been checked."""

    options: ModelOptions
    header: ModelHeader
    plan: CurvePlan
    names: tuple[str, ...]
    words: list[str]


def _measure(job: _Job, target: JsonFile) -> int:
    isa = probed_isa()
    load = load_average()
    with Waiting(sys.stderr, "loading the model..."):
        origin = provenance(machine(), {"target": model_record(job.header.path)}, ["outrider", "bench", "curve", *job.words])
        engines = Engines(job.header, job.options, job.names, job.plan)
    for line in engines.notices:
        note(line)
    with engines, StopOnInterrupt() as stop:
        cost = pass_cost(job.header.parameters, job.header.split.tensors, job.options.cache_type_k, job.options.cache_type_v)
        facts = CurveFacts(engines.describe(), cost, isa, engines.threads, origin | {"load_average": load})
        listener = _Listener(TimeLeft(sys.stderr, columns=shutil.get_terminal_size().columns), target)
        tools = Instruments(time.thread_time if job.plan.cpu_time else time.perf_counter, lambda: probe(engines.threads, isa))
        run = CurveRun(engines.contenders, job.plan, tools, listener, stop.cancel)
        listener.document = lambda: curve_document(run, job.plan, facts, load_average())
        failure = _run(run, listener.time_left)
        if run.samples:
            _show(listener.document() | {"error": failure and failure.message}, target)
        elif failure is not None:
            raise failure
        else:
            note("no pass was timed, so there is nothing to show")
    if failure is not None:  # standard output has had its document, so the error is none
        return report(failure, as_json=False)
    return EXIT_CODES[CancelledError] if stop.interrupted else 0


def _run(run: CurveRun, time_left: TimeLeft) -> OutriderError | None:
    """Measure, and take the progress line away; what went wrong, because the passes before it are still worth showing."""
    try:
        run.run()
    except OutriderError as error:
        return error
    finally:
        time_left.hide()
    return None


@dataclass(slots=True)
class _Listener:
    """Shows progress, and keeps every finished round in the file.

    Attributes:
        time_left: the display.
        target: the file.
        document: makes the document of the rounds so far; set once the run exists.
    """

    time_left: TimeLeft
    target: JsonFile
    document: Callable[[], dict[str, Any]] = dict

    def advance(self, share: float, what: str) -> None:
        self.time_left.advance(share, what)

    def round_ended(self) -> None:
        self.target.save(self.document())


def _show(document: dict[str, Any], target: JsonFile) -> None:
    """The table on standard output, unless the document goes there; then the file, so that a full disk costs no figures."""
    if not target.is_stdout:
        from outrider.bench.table import CurveView
        from outrider.models.tables import show

        with writing(sys.stdout):
            show(CurveView(document), sys.stdout)
    if document["noise"]["is_busy"]:
        hint = "" if document["clock"] == "cpu" else "; --cpu-time is steadier"
        note(f"the machine was busy: T(1) spread over {document['noise']['spread'] * 100:.0f} %, so all of this is rough{hint}")
    target.finish(document)
