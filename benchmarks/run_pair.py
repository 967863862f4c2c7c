"""Plain against speculative decoding on a pair of models: interleaved, with medians, spread and provenance.

Every generation is a run of `outrider run --json` in a process of its own, so none profits from another's caches. For each prompt all
configurations run one after the other, and the order rotates from prompt to prompt, so that a machine that gets warm or busy
slows all of them alike. The speed is the document's own: decoding from the first token to the last, prompt and loading left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from outrider.cli import examination
from outrider.cli.examples import example, example_names
from outrider.errors import OutriderError
from outrider.models import resolve, store

ROOT = Path(__file__).resolve().parent.parent
PLAIN = "native plain"
_P_MIN = ["--policy", "fixed", "--draft-max", "7", "--draft-p-min", "0.6"]
CONFIGURATIONS: dict[str, list[str]] = {
    PLAIN: ["--backend", "native", "--plain"],
    "native p-min 0.6": ["--backend", "native", *_P_MIN],
    "native always 4": ["--backend", "native", "--policy", "fixed", "--draft-max", "4", "--draft-p-min", "0"],
    "llama plain": ["--backend", "llama", "--plain"],
    "llama p-min 0.6": ["--backend", "llama", *_P_MIN],
}
"""Each backend's first configuration is its own plain decoding, which the texts of its others are compared with."""


class BenchError(Exception):
    """A run failed, and one line says why."""


@dataclass(frozen=True)
class Prompt:
    """One prompt and the workload that it stands for."""

    workload: str
    text: str


@dataclass
class Sample:
    """The documents of one configuration, in the order of the prompts."""

    documents: list[dict[str, Any]] = field(default_factory=list)

    def add(self, document: dict[str, Any]) -> None:
        """Keep one."""
        self.documents.append(document)

    def sum(self, part: str, name: str) -> float:
        """Sum of one number of the documents."""
        return float(sum(document[part][name] or 0 for document in self.documents))


def read_prompts(file: Path | None, count: int) -> list[Prompt]:
    """Prompts from a JSON Lines file, or the bundled ones.

    Raises:
        BenchError: the file holds something else.
    """
    if file is None:
        return [Prompt(name, example(name)) for name in example_names()][:count]
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    try:
        rows = [json.loads(line) for line in text.decode().splitlines() if line.strip()][:count]
    except ValueError:
        rows = []
    if not rows or not all(isinstance(row, dict) and isinstance(row.get("prompt"), str) for row in rows):
        raise BenchError(f"{file} is not a JSON Lines file whose objects have a `prompt`")
    return [Prompt(file.name.partition(".")[0], row["prompt"]) for row in rows]


def generate(models: list[str], prompt: Prompt, options: list[str]) -> dict[str, Any]:
    """One document of `outrider run --json`.

    Raises:
        BenchError: the run failed.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(prompt.text)
        file.flush()
        command = [sys.executable, "-c", "import sys; from outrider.cli.main import main; sys.exit(main())"]
        command += ["run", *models, "-f", file.name, "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"outrider run failed with exit code {done.returncode}: {done.stderr.strip()}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def measure(models: list[str], prompts: list[Prompt], common: list[str]) -> dict[str, Sample]:
    """Run every configuration on every prompt; progress goes to standard error."""
    names = [name for name in CONFIGURATIONS if backend(name) != "llama" or llama_version() is not None]
    if len(names) < len(CONFIGURATIONS):
        print("llama.cpp is not installed, so its rows are left out (scripts/install.py --llama installs it)", file=sys.stderr)
    samples = {name: Sample() for name in names}
    for number, prompt in enumerate(prompts):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            document = generate(models, prompt, [*common, *CONFIGURATIONS[name]])
            samples[name].add(document)
            speed = document["timings"]["tokens_per_second"] or 0.0
            print(f"[{number + 1}/{len(prompts)}] {prompt.workload}, {name}: {speed:.1f} tokens/s", file=sys.stderr)
    return samples


def summarise(samples: dict[str, Sample], workloads: list[str]) -> list[dict[str, Any]]:
    """One row for each configuration; ratios compare the same prompt with itself.

    A prompt whose answer was one token has no speed and is left out of the ratios.
    """
    first_of: dict[str, Sample] = {}
    for name, sample in samples.items():
        first_of.setdefault(backend(name), sample)
    return [summary(name, sample, samples[PLAIN], first_of[backend(name)], workloads) for name, sample in samples.items()]


def backend(name: str) -> str:
    """The backend of a configuration."""
    return name.partition(" ")[0]


def summary(name: str, sample: Sample, plain: Sample, same: Sample, workloads: list[str]) -> dict[str, Any]:
    """The row of one configuration.

    Args:
        name: of the configuration.
        sample: its documents.
        plain: those that its speed is compared with.
        same: those that its texts are compared with: its own backend's plain decoding.
        workloads: of the prompts.
    """
    ratios = sorted(speed_ratios(sample, plain))
    steps, drafted = sample.sum("speculation", "steps"), sample.sum("speculation", "drafted")
    tokens, decode_ms = sample.sum("timings", "decode_tokens"), sample.sum("timings", "decode_ms")
    return {
        "configuration": name,
        "options": CONFIGURATIONS.get(name, []),
        "backend": backend(name),
        "workload": ", ".join(dict.fromkeys(workloads)),
        "prompts": len(sample.documents),
        "tokens": sum(len(document["tokens"]) for document in sample.documents),
        "tokens_per_second": tokens / decode_ms * 1e3 if decode_ms else None,
        "ratio_to_plain": statistics.median(ratios) if ratios else None,
        "worst_ratio_to_plain": ratios[0] if ratios else None,
        "spread": [ratios[0], ratios[-1]] if ratios else None,
        "block_efficiency": 1 + sample.sum("speculation", "accepted") / steps if steps else None,
        "acceptance_rate": sample.sum("speculation", "accepted") / drafted if drafted else None,
        "identical_to_plain": sum(ours["text"] == theirs["text"] for ours, theirs in zip(sample.documents, same.documents, strict=True)),
    }


def speed_ratios(sample: Sample, plain: Sample) -> Iterator[float]:
    """Speed over plain decoding's, prompt by prompt."""
    for ours, theirs in zip(sample.documents, plain.documents, strict=True):
        speed, base = ours["timings"]["tokens_per_second"], theirs["timings"]["tokens_per_second"]
        if speed and base:
            yield speed / base


def provenance(files: dict[str, Path], common: list[str]) -> dict[str, Any]:
    """Everything that somebody would need to run this again."""
    found = examination.machine()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {name: found[name] for name in ("cpu", "memory", "platform")},
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain")),
        "versions": {"outrider": found["outrider"], "python": found["python"], "llama-cpp-python": llama_version(), **found["packages"]},
        "models": {role: {"file": file.name, "sha256": store.sha256_of(file)} for role, file in files.items()},
        "options": common,
    }


def llama_version() -> str | None:
    """Of the second backend, which is an extra; None where it is not installed."""
    try:
        return metadata.version("llama-cpp-python")
    except metadata.PackageNotFoundError:
        return None


def git(*arguments: str) -> str:
    """What git says; "" outside a clone or without git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607  # the user's git
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def print_table(rows: list[dict[str, Any]]) -> None:
    """The rows for a reader."""
    print(f"{'configuration':<18} {'tokens/s':>9} {'to plain':>9} {'worst':>7} {'accepted':>9} {'per pass':>9}  same text")
    for row in rows:
        cells = [number(row[name], 2) for name in ("ratio_to_plain", "worst_ratio_to_plain", "acceptance_rate", "block_efficiency")]
        speed = number(row["tokens_per_second"], 1)
        print(f"{row['configuration']:<18} {speed:>9} {cells[0]:>9} {cells[1]:>7} {cells[2]:>9} {cells[3]:>9}", end="")
        print(f"  {row['identical_to_plain']} of {row['prompts']}")


def number(value: float | None, digits: int) -> str:
    """A number, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default="qwen2.5-coder-1.5b", help="target (default: %(default)s)")
    parser.add_argument("-md", "--draft-model", default="qwen2.5-coder-0.5b", help="draft model (default: %(default)s)")
    parser.add_argument("-n", "--tokens", type=int, default=160, help="tokens of an answer (default: %(default)s)")
    parser.add_argument("--prompts", type=Path, help="JSON Lines file of prompts, .gz or not; the bundled prompts without it")
    parser.add_argument("--count", type=int, default=16, help="at most so many prompts (default: %(default)s)")
    parser.add_argument("--raw", action="store_true", help="give prompts to the model without its chat template")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build" / "bench.json", help="where the JSON goes (default: build/bench.json)"
    )
    return parser.parse_args()


def main() -> int:
    """Measure, print the table, write the file."""
    arguments = parse()
    common = ["-n", str(arguments.tokens), *(["--raw"] if arguments.raw else [])]
    models = ["-m", arguments.model, "-md", arguments.draft_model]
    try:
        files = {"target": resolve.ensure(arguments.model), "draft": resolve.ensure(arguments.draft_model)}
        prompts = read_prompts(arguments.prompts, arguments.count)
        rows = summarise(measure(models, prompts, common), [prompt.workload for prompt in prompts])
        document = {"results": rows, "provenance": provenance(files, common)}
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except (BenchError, OutriderError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print_table(rows)
    print(f"\nwritten to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
