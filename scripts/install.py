"""Install Outrider into the virtual environment that runs this script; needs nothing but the standard library.

Outrider's own core is compiled on the way, which takes a minute or two. llama-cpp-python is installed for the tests, where
--llama asks for it, and where our core has no kernels for the CPU yet. It comes as source and takes minutes to compile for
this CPU, so its wheel is kept in a cache outside the tree, under a name that changes with everything the result depends on.
Builds show their progress. A second run finds all done and returns at once; an interrupted one goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = Path(sys.prefix) / "outrider-install.json"
PACKAGE = "llama-cpp-python"
FAST_MACHINES = ("x86_64", "AMD64")  # where native/ has kernels for the CPU; see has_fast_kernels
QUIET_S = 15
NINJA = re.compile(r"^\s*\[(\d+)/(\d+)\]")
PIP_NEWS = re.compile(r"^\s*(Downloading|Building|Installing collected|Installing build|\*\*\* Configuring)")


class InstallError(Exception):
    """Something went wrong that one line can explain."""


class Progress:
    """One line that is rewritten on a terminal; elsewhere a new line for every twentieth of the way or every 15 seconds."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.tty = sys.stdout.isatty()
        self.width = shutil.get_terminal_size((100, 24)).columns - 1
        self.began = time.monotonic()
        self.shown = (-1, 0.0)

    def news(self, text: str) -> None:
        """A phase without a measurable length."""
        self._write(f"  {self.label}: {text}")

    def advance(self, done: int, total: int) -> None:
        """`done` of `total` build steps are finished."""
        twentieth = done * 20 // total
        seconds = time.monotonic() - self.began
        if not self.tty and twentieth == self.shown[0] and seconds - self.shown[1] < QUIET_S:
            return
        self.shown = (twentieth, seconds)
        bar = "#" * twentieth + "." * (20 - twentieth)
        self._write(f"  {self.label}: [{bar}] {done * 100 // total:3d} %  step {done} of {total}  {seconds:.0f} s")

    def close(self) -> None:
        """Leave the last line standing."""
        if self.tty:
            print(flush=True)

    def _write(self, line: str) -> None:
        if self.tty:
            print("\r" + line[: self.width].ljust(self.width), end="", flush=True)
        else:
            print(line, flush=True)


def show(progress: Progress, line: str) -> None:
    """Turn one line of pip's output into progress; most lines are for the log only."""
    step = NINJA.match(line)
    if step:
        progress.advance(int(step[1]), int(step[2]))
    elif PIP_NEWS.match(line):
        progress.news(line.strip().removeprefix("*** "))


def run(command: list[str], label: str, log: Path, environment: dict[str, str] | None = None) -> None:
    """Run a command with its output in `log` and its progress on the screen.

    Raises:
        InstallError: it failed; the end of its output has been printed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(label)
    tail: deque[str] = deque(maxlen=25)
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        for line in process.stdout or ():
            file.write(line)
            tail.append(line)
            show(progress, line)
    progress.close()
    if process.returncode:
        print("".join(tail), file=sys.stderr)
        hint = " (out of memory? try again with CMAKE_BUILD_PARALLEL_LEVEL=1)" if any("Killed" in line for line in tail) else ""
        raise InstallError(f"{label} failed{hint}; the whole log is in {log}")


def pip(*arguments: str) -> list[str]:
    """A pip command line; the user's own pip configuration (index, proxy, certificates) applies as always."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]


def pinned_version() -> str:
    """The version of llama-cpp-python in constraints.txt."""
    for line in (ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{PACKAGE}=="):
            return line.split("==")[1].strip()
    raise InstallError(f"scripts/constraints.txt pins no {PACKAGE}")


def cmake_args() -> str:
    """CMake options: the user's own (-DGGML_CUDA=on, say) after ours.

    Ours leave out the image encoders, and AMX: gcc before 14 drops the stores of llama.cpp's tile configuration, and the first
    pass of any model ends in a segmentation fault (its issue 20824, its pull request 26954).
    """
    ours = ["-DLLAVA_BUILD=OFF"]
    if "amx_tile" in cpu_features().split():
        ours.append("-DCMAKE_CXX_FLAGS='-mno-amx-tile -mno-amx-int8 -mno-amx-bf16'")
    return " ".join([*ours, os.environ.get("CMAKE_ARGS", "")]).strip()


def cpu_features() -> str:
    """What the compiler may use on this CPU, as the kernel lists it; "" where there is no such list."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found = next((line for line in lines if line.partition(":")[0].strip() in ("flags", "Features")), "")
    return " ".join(sorted(found.partition(":")[2].split()))


def has_fast_kernels() -> bool:
    """Whether native/ has kernels for this CPU: on AArch64 they want its dot products."""
    return platform.machine() in FAST_MACHINES or (platform.machine() in ("aarch64", "arm64") and "asimddp" in cpu_features().split())


def wheel_key(version: str) -> str:
    """Names a build: two machines with the same key can run each other's wheel."""
    depends_on = [platform.machine(), cpu_features(), " ".join(platform.libc_ver()), cmake_args()]
    return f"{version}-{hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:12]}"


def wheel_cache(key: str) -> Path:
    """The folder of one cached build."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "outrider" / "wheels" / key


def cached_wheel(folder: Path) -> Path | None:
    """A sound wheel in the cache, or None."""
    return next((wheel for wheel in sorted(folder.glob("*.whl")) if zipfile.is_zipfile(wheel)), None)


def build_wheel(version: str, into: Path) -> Path:
    """Compile llama-cpp-python; the wheel appears under its final name only when it is complete."""
    print(f"  {PACKAGE} {version} is compiled for this CPU, once; on two cores that takes about five minutes", flush=True)
    environment = os.environ | {"CMAKE_ARGS": cmake_args()}
    environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix="building-") as scratch:
        # pip's own wheel cache is keyed by source alone, not by CPU: a home folder shared between machines would mix them.
        command = pip("wheel", "-v", "--no-deps", "--no-cache-dir", "--no-binary", PACKAGE, "--wheel-dir", scratch)
        command += ["--config-settings=ninja.make-fallback=false", f"{PACKAGE}=={version}"]
        run(command, f"building {PACKAGE}", ROOT / "build" / "llama-build.log", environment)
        wheel = next(Path(scratch).glob("*.whl"))
        into.mkdir(exist_ok=True)
        return wheel.replace(into / wheel.name)


def install_llama(key: str) -> None:
    """Install llama-cpp-python, from the cache where it holds this build."""
    folder = wheel_cache(key)
    wheel = cached_wheel(folder)
    if wheel is None:
        wheel = build_wheel(pinned_version(), folder)
    else:
        print(f"  {PACKAGE}: using the wheel built earlier, {wheel}", flush=True)
    run(pip("install", "--force-reinstall", "--no-deps", str(wheel)), f"installing {PACKAGE}", ROOT / "build" / "llama-install.log")


def install_outrider(*, dev: bool) -> None:
    """Install the package itself, in place: a change of its Python files needs no new installation."""
    command = pip("install", "-v", "--editable", ".[dev]" if dev else ".", "--constraint", "scripts/constraints.txt")
    run(command, "installing outrider and what it needs", ROOT / "build" / "install.log")


def read_stamp() -> dict[str, object]:
    """What an earlier run finished; {} for nothing."""
    try:
        found = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_stamp(stamp: dict[str, object]) -> None:
    """Remember what is finished."""
    STAMP.write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")


def project_hash() -> str:
    """Changes with everything that an installation in place is compiled or resolved from."""
    digest = hashlib.sha256()
    for path in [ROOT / "pyproject.toml", ROOT / "CMakeLists.txt", *sorted(path for path in (ROOT / "native").iterdir() if path.is_file())]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def steps(*, dev: bool, llama: bool) -> Iterator[tuple[str, Callable[[], None], dict[str, object]]]:
    """The steps still to do: what to say, what to do, and what is then true."""
    done = read_stamp()
    dev = dev or done.get("dev") is True
    key = wheel_key(pinned_version())
    package: dict[str, object] = {"project": project_hash(), "root": str(ROOT), "dev": dev}
    wants_llama = llama or dev or "llama" in done or not has_fast_kernels()
    if wants_llama and done.get("llama") != key:
        yield f"install {PACKAGE} {key}", lambda: install_llama(key), {"llama": key}
    if any(done.get(name) != value for name, value in package.items()):
        yield f"install outrider{' with its development tools' if dev else ''}", lambda: install_outrider(dev=dev), package


def main() -> int:
    """Do what is left to do; 0, or 1 after one line that says what went wrong."""
    parser = argparse.ArgumentParser(description="Install Outrider into the environment that runs this script.")
    parser.add_argument("--dev", action="store_true", help="also what the tests and linters need")
    parser.add_argument("--llama", action="store_true", help="also llama.cpp as a second backend: GPUs, and models that our core can't run")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    arguments = parser.parse_args()
    if sys.prefix == sys.base_prefix:
        print("error: this Python is not in a virtual environment; run ./scripts/quickstart instead", file=sys.stderr)
        return 1
    try:
        for words, act, then in steps(dev=arguments.dev, llama=arguments.llama):
            if arguments.dry_run:
                print(f"  would {words}")
                continue
            act()
            write_stamp(read_stamp() | then)
    except (InstallError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
