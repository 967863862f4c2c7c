"""What the compiler made of the core, read from the objects of the newest build in `build`: a wheel has to run on every CPU."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

BUILDS = Path(__file__).parents[2] / "build"
X86 = platform.machine() in ("x86_64", "AMD64")
KERNELS = ["scalar", "avx2", "avx_vnni", "avx512"] if X86 else ["scalar"]
N_FORMATS = 11
AVX = re.compile(r"\tv[a-z0-9]+ ")
AVX512 = re.compile(r"%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b")


def objects(target: str) -> dict[str, Path]:
    """The objects of a target by name, from the newest build."""
    if shutil.which("objdump") is None or shutil.which("nm") is None:
        pytest.skip("not installed: binutils")
    found = [path for path in BUILDS.glob(f"*/CMakeFiles/{target}.dir/native/*.o") if path.parents[4] == BUILDS]
    if not found:
        pytest.skip("the core was not built in this tree")
    newest = max(found, key=lambda path: path.stat().st_mtime).parents[2]
    if "-march=" in re.findall(r"CMAKE_CXX_FLAGS:STRING=(.*)", (newest.parent / "CMakeCache.txt").read_text())[0]:
        pytest.skip("built for one kind of CPU on purpose")
    return {path.name.split(".")[0]: path for path in found if newest in path.parents}


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def kernel(name: str) -> Path:
    return objects("outrider_kernels")[f"kernels_{name}"]


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_objects_share_no_code(name: str) -> None:
    """A weak function, compiled for AVX-512 here, might be the copy that the linker keeps for every other file too."""
    symbols = [line.split() for line in output_of("nm", "--format=posix", kernel(name)).splitlines()]
    kinds = {symbol[0]: symbol[1] for symbol in symbols}
    assert not [symbol for symbol, kind in kinds.items() if kind in "WwVvu"]
    assert len([symbol for symbol, kind in kinds.items() if kind.isupper() and kind != "U"]) == 1  # the table


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_objects_run_nothing_at_start(name: str) -> None:
    """An initialiser would run on every CPU, with instructions that not every CPU has."""
    assert not re.search(r"\.(init_array|ctors)", output_of("objdump", "-h", kernel(name)))


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "scalar"])
def test_prefetches_survive(name: str) -> None:
    """gcc drops calls of a function that only prefetches, without a word."""
    found = Counter(re.findall(r"\t(prefetch\w+) ", output_of("objdump", "-d", "--no-show-raw-insn", kernel(name))))
    assert found["prefetcht0"] >= 2 * N_FORMATS * 3  # one and two rows, at least three lines each
    assert found["prefetcht1"] >= 6 * N_FORMATS * 3


@pytest.mark.skipif(not X86, reason="about x86 instructions")
def test_instructions_stay_where_the_cpu_was_asked() -> None:
    kernels = objects("outrider_kernels")
    core = objects("outrider_core") | {f"module {name}": path for name, path in objects("_core").items()}
    assert set(kernels) == {f"kernels_{name}" for name in KERNELS}
    for name, path in (kernels | core).items():
        code = output_of("objdump", "-d", "--no-show-raw-insn", path)
        assert bool(AVX512.search(code)) == (name == "kernels_avx512"), name
        assert bool(AVX.search(code)) == (name in kernels and name != "kernels_scalar"), name
