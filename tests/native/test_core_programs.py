"""The core's own tests, in C++: built with sanitizers, and for another architecture where its compiler and emulator are there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("test_kernels", "test_attention", "test_formats", "test_pool", "test_passes")
FUZZERS = ("fuzz_weights", "fuzz_passes")  # here on a few hundred random inputs
SANITIZED = ("-DOUTRIDER_SANITIZE=address,undefined", "-DOUTRIDER_QUICK=ON")
CROSS = (f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'native' / 'tests' / 'aarch64.cmake'}",)

pytestmark = pytest.mark.timeout(900)  # the first test of each kind compiles


def needs(*commands: str) -> None:
    missing = [command for command in commands if shutil.which(command) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def output_of(command: list[str], **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@cache
def build(name: str, options: tuple[str, ...], programs: tuple[str, ...]) -> Path:
    """The folder of the built programs; what is there already is only brought up to date."""
    folder = ROOT / "build" / "tests" / name
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    flags = ["-DOUTRIDER_TESTS=ON", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 -g1"]
    output_of(["cmake", *generator, "-S", str(ROOT), "-B", str(folder), *flags, *launcher, *options])
    output_of(["cmake", "--build", str(folder), "--parallel", str(len(os.sched_getaffinity(0))), "--target", *programs])
    return folder / "native" / "tests"


@pytest.fixture
def sanitized() -> Path:
    needs("cmake", "g++")
    return build("asan", SANITIZED, (*PROGRAMS, *FUZZERS))


@pytest.fixture
def emulated() -> Callable[[str], str]:
    needs("cmake", "aarch64-linux-gnu-g++", "qemu-aarch64")
    folder = build("aarch64", CROSS, PROGRAMS)

    def run(program: str, *, cpu: str = "max") -> str:
        return output_of(["qemu-aarch64", "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu", str(folder / program)], OUTRIDER_EMULATED="1")

    return run


@pytest.mark.parametrize("program", [*PROGRAMS, *FUZZERS])
def test_program_finds_nothing_under_sanitizers(sanitized: Path, program: str) -> None:
    assert " checks\n" in output_of([str(sanitized / program)])


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_finds_nothing_on_an_emulated_arm(emulated: Callable[..., str], program: str) -> None:
    out = emulated(program)
    assert " checks\n" in out
    assert program != "test_kernels" or out.startswith("neon scalar")


def test_an_arm_without_dot_products_runs_the_reference(emulated: Callable[..., str]) -> None:
    assert emulated("test_kernels", cpu="cortex-a53").startswith("scalar kernels")
