"""A coverage-guided fuzzer of the header reader, for longer runs than a test may take.

    python -m tests.gguf.fuzz_header --seconds 600 [--seed N] [--core]

A mutation that reaches a new pair of lines in `outrider.gguf` joins the corpus. Whatever the bytes, only errors of this package
may come out, each in one line with a hint. With --core, files that the reader accepts go on to the native core's loader. A finding
is written to a file and ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from outrider.errors import OutriderError
from tests.gguf.test_fuzz import ARCHITECTURES, INTERESTING, NUMBERS, malformed
from tests.gguf.test_hardening import read_everything
from tests.gguf_files import tiny_model

MAX_BYTES = 1 << 15
Edge = tuple[CodeType, int, int]


class Coverage:
    """Which pairs of successive lines of the watched package have been run."""

    def __init__(self, package: str) -> None:
        self._marker = package
        self.edges: set[Edge] = set()
        self.grown = False

    def run(self, work: Callable[[], str | None]) -> str | None:
        """Do it; `grown` tells afterwards whether it ran something new."""
        self.grown = False
        sys.settrace(self._enter)
        try:
            return work()
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if self._marker not in frame.f_code.co_filename:
            return None
        last = 0
        code = frame.f_code

        def line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            nonlocal last
            edge = (code, last, frame.f_lineno)
            last = frame.f_lineno
            if edge not in self.edges:
                self.edges.add(edge)
                self.grown = True
            return line

        return line


def number(draw: random.Random) -> bytes:
    """An awkward integer in one of the widths that a header has."""
    width = draw.choice((1, 2, 4, 8))
    return (draw.choice(NUMBERS) % (1 << 8 * width)).to_bytes(width, "little")


def mutate(draw: random.Random, corpus: list[bytes]) -> bytes:
    data = bytearray(draw.choice(corpus))
    for _ in range(draw.choice((1, 1, 1, 2, 4, 8))):
        at, n = draw.randrange(len(data) + 1), draw.choice((1, 1, 2, 4, 8, 32))
        match draw.randrange(9):
            case 0 if at < len(data):
                data[at] ^= 1 << draw.randrange(8)
            case 1:
                data[at : at + n] = draw.randbytes(n)
            case 2:
                data[at:at] = draw.randbytes(n)
            case 3:
                del data[at : at + n]
            case 4:
                data[at:at] = data[at : at + n]
            case 5:
                data[at : at + n] = bytes([draw.choice(INTERESTING)]) * n
            case 6:
                value = number(draw)
                data[at : at + len(value)] = value
            case 7:  # a piece of another file
                other = draw.choice(corpus)
                start = draw.randrange(len(other) + 1)
                data[at : at + n] = other[start : start + draw.choice((8, 32, 128))]
            case _:
                del data[draw.randrange(len(data) // 2, len(data) + 1) :]
    return bytes(data[:MAX_BYTES])


def core_seeds(folder: Path) -> list[bytes]:
    import numpy as np

    from tests.native.tiny_models import FLOATS, QUANTISED, Shape, write_model

    sizes: dict[str, Any] = {"embedding": 32, "feed_forward": 32, "vocab": 12, "layers": 1, "types": QUANTISED[:5] + FLOATS}
    factors = np.ones(16, dtype=np.float32)
    longrope = {"rope_factors_long.weight": factors, "rope_factors_short.weight": factors}
    scaled = {"rope.scaling.type": "longrope"}
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 512}
    shapes = [Shape(architecture=architecture, heads=2, kv_heads=1, **sizes) for architecture in ARCHITECTURES]
    shapes += [  # heads of 32 values fit a q8_0 cache
        Shape(architecture="llama", heads=1, kv_heads=1, biases=False, tensors={"rope_freqs.weight": factors}, **sizes),
        Shape(architecture="llama", heads=1, kv_heads=1, biases=False, metadata=scaled, tensors=longrope, **sizes),
        Shape(architecture="qwen3", heads=1, kv_heads=1, metadata=yarn, **sizes),
    ]
    seeds = []
    for shape in shapes:
        write_model(folder / "seed.gguf", shape)
        seeds.append((folder / "seed.gguf").read_bytes())
    return seeds


def through_the_core(path: Path) -> None:
    from outrider.model import Segment
    from outrider.native import CACHE_TYPES, NativeOptions, load

    read_everything(path)
    for cache in CACHE_TYPES:
        options = NativeOptions(n_context=8, n_sequences=1, threads=1, cap_context=False, cache_type_k=cache, cache_type_v=cache)
        model = load(path, options)
        model.evaluate([Segment(model.open(), (0, 1))]).argmax([1])
        model.close()


def complaint(work: Callable[[], None]) -> str | None:
    """What is wrong with the way that `work` fails, or None. Anything that is no Exception passes through: it is the user's."""
    try:
        work()
    except OutriderError as error:
        return None if error.hint and "\n" not in str(error) else f"not one line with a hint: {error!r}"
    except Exception:  # noqa: BLE001  # any other is what we are looking for
        return traceback.format_exc()
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S")
    parser.add_argument("--seed", type=int, default=None, help="of the random choices; the time by default")
    parser.add_argument("--core", action="store_true", help="load what the reader accepts")
    options = parser.parse_args()
    seed = time.time_ns() if options.seed is None else options.seed
    draw = random.Random(seed)  # noqa: S311  # a choice of examples, no secret
    coverage = Coverage("outrider/gguf")
    with tempfile.TemporaryDirectory(prefix="outrider-fuzz-") as folder:
        path = Path(folder) / "model.gguf"
        seeds = core_seeds(Path(folder)) if options.core else [*(tiny_model(name).to_bytes() for name in ARCHITECTURES), *malformed()]
        corpus = [each for each in seeds if 0 < len(each) <= MAX_BYTES]
        end, n_runs, read = time.monotonic() + options.seconds, 0, through_the_core if options.core else read_everything
        n_seeds = len(corpus)
        while time.monotonic() < end:
            data = corpus[n_runs] if n_runs < n_seeds else mutate(draw, corpus)
            n_runs += 1
            path.write_bytes(data)
            found = coverage.run(lambda: complaint(lambda: read(path)))
            if coverage.grown and n_runs > n_seeds:
                corpus.append(data)
            if found is not None:
                kept = Path(tempfile.gettempdir()) / f"outrider-finding-{seed}-{n_runs}.gguf"
                kept.write_bytes(data)
                print(f"{found}\nthe file: {kept}")
                return 1
    print(f"header fuzzing: {n_runs} files, {len(coverage.edges)} pairs of lines, corpus of {len(corpus)}, seed {seed}, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
