"""The facts behind `outrider doctor`, as plain data."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import outrider
from outrider import loading, native
from outrider.config import Settings
from outrider.cpus import read_text, usable_cpus
from outrider.errors import OutriderError
from outrider.llama import devices
from outrider.llama.library import INSTALL_HINT
from outrider.memory import available_memory
from outrider.models import listing, resolve, store
from outrider.native.options import ISA_VARIABLE

_ROOT: Final = Path("/")
# What matter to matrix kernels, of the hundred flags that a processor has; Linux's names.
_INSTRUCTIONS: Final = (
    "sse4_2 avx f16c fma avx2 avx_vnni avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx512_fp16 amx_int8 amx_bf16"
    " asimd asimddp i8mm bf16 sve sve2 sme"
).split()


def machine(root: Path = _ROOT) -> dict[str, Any]:
    """What is installed and what this machine has.

    Args:
        root: where `proc` and `sys` are mounted; tests pass a directory.
    """
    return {
        "outrider": outrider.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _required()},
        "cpu": _cpu(root),
        "memory": {"total_bytes": _total_memory(root), "available_bytes": available_memory(root)},
        "backends": [_native(root), _llama()],
        "models": _models(),
    }


def examine(settings: Settings) -> dict[str, Any]:
    """Load a pair as `run` would, without fetching anything, and say what became of it.

    Raises:
        OutriderError: whatever `run` would have stopped at.
    """
    for name in (settings.model.model, settings.model.draft_model):
        if name is not None:
            resolve.resolve(name)
    with loading.load(settings) as pair:
        return pair.describe()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _required() -> list[str]:
    """The packages without which nothing runs, by our own metadata; [] in a tree that was not installed."""
    try:
        requirements = metadata.requires("outrider") or []
    except metadata.PackageNotFoundError:
        return []
    names = (re.match(r"[\w.-]+", requirement) for requirement in requirements if "extra ==" not in requirement)
    return [name[0] for name in names if name]


def _cpu(root: Path) -> dict[str, Any]:
    text = read_text(root / "proc/cpuinfo")
    model = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    present = set(flags[1].split()) if flags else set()
    return {
        "model": model[1] if model else platform.processor() or platform.machine(),
        "instructions": [name for name in _INSTRUCTIONS if name in present],
        "logical": os.cpu_count(),
        "usable": usable_cpus(root),
    }


def _total_memory(root: Path) -> int | None:
    total = re.search(r"^MemTotal:\s+(\d+) kB", read_text(root / "proc/meminfo"), re.MULTILINE)
    return int(total[1]) * 1024 if total else None


def _native(root: Path) -> dict[str, Any]:
    """The native backend, or why it can't be used."""
    backend: dict[str, Any] = {"name": "native", "installed": native.is_available(), "error": None, "hint": None}
    asked = os.environ.get(ISA_VARIABLE) or None
    pages = re.search(r"\[(\w+)\]", read_text(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    backend |= {"kernels": [], "chosen": None, "override": asked, "huge_pages": pages[1] if pages else None, "threads": usable_cpus(root)}
    if not backend["installed"]:
        return backend | {"hint": "this installation was built without it: install again from source, with a C++20 compiler"}
    backend["kernels"] = native.instruction_sets()
    if asked is not None and asked not in backend["kernels"]:
        return backend | {
            "error": f"{ISA_VARIABLE} is {asked!r}, which cannot run here",
            "hint": f"unset it, or choose from {', '.join(backend['kernels'])}",
        }
    return backend | {"chosen": asked or backend["kernels"][0]}


def _llama() -> dict[str, Any]:
    """The llama.cpp backend, or why it can't be used."""
    backend: dict[str, Any] = {"name": "llama", "installed": find_spec("llama_cpp") is not None, "error": None, "hint": None}
    backend |= {"package": None, "kernels": [], "devices": []}
    if not backend["installed"]:
        return backend | {"hint": f"only GPUs, and models that the native engine cannot run, need it; {INSTALL_HINT}"}
    backend["package"] = f"llama-cpp-python {_version('llama-cpp-python') or 'of unknown version'}"
    try:
        found = devices()
        backend["kernels"] = _kernels()
    except OutriderError as error:
        return backend | {"error": error.message, "hint": error.hint}
    fields = ("name", "description", "backend", "kind", "free_bytes", "total_bytes")
    return backend | {"devices": [{field: getattr(device, field) for field in fields} for device in found]}


def _kernels() -> list[str]:
    """Instruction sets that llama.cpp's kernels were built for and found here, by its own account."""
    from outrider.llama.library import library

    text = library().api.llama_print_system_info().decode("utf-8", "replace")
    return re.findall(r"(\w+) = 1", text)


def _models() -> dict[str, Any]:
    directory = store.models_directory()
    known = [
        {"name": item.name, "state": item.state.value, "bytes": item.n_bytes, "path": str(item.path)} for item in listing.listing(directory)
    ]
    return {"directory": str(directory), "known": known}
