"""The facts behind `outrider doctor`, as plain data."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import outrider
from outrider import loading
from outrider.config import Settings
from outrider.cpus import read_text, usable_cpus
from outrider.errors import OutriderError
from outrider.llama import devices
from outrider.memory import available_memory
from outrider.models import listing, resolve, store

_PACKAGES: Final = ("numpy", "llama-cpp-python", "jinja2", "rich", "huggingface_hub")
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
        "packages": {name: _version(name) for name in _PACKAGES},
        "cpu": _cpu(root),
        "memory": {"total_bytes": _total_memory(root), "available_bytes": available_memory(root)},
        "backends": [_llama()],
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


def _llama() -> dict[str, Any]:
    """The llama.cpp backend, or why it can't be used."""
    package = f"llama-cpp-python {_version('llama-cpp-python') or 'of unknown version'}"
    backend: dict[str, Any] = {"name": "llama", "package": package, "kernels": [], "devices": [], "error": None, "hint": None}
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
