"""The package is imported lazily, quietly and completely, or not at all."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.errors import EXIT_CODES, ConfigError, EngineError
from outrider.llama import LlamaOptions, devices, library, load
from outrider.llama.devices import DeviceKind
from outrider.llama.library import Library
from tests.llama.tiny import TinyModel
from tests.model_files import byte_letters

SOURCE = Path(outrider.__file__).parents[1]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own: what it does to the process must not be ours."""
    prelude = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
    return subprocess.run([sys.executable, "-c", prelude + code, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_importing_the_adapter_does_not_import_the_package() -> None:
    done = python("import outrider.llama, outrider\nprint([name for name in sys.modules if name.startswith('llama_cpp')])")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.fixture
def _unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_loaded", None)


@pytest.mark.usefixtures("_unloaded")
@pytest.mark.parametrize(
    ("raised", "says", "hint"),
    [
        (ModuleNotFoundError("No module named 'llama_cpp'", name="llama_cpp"), "'llama_cpp', which is not installed", "pip install"),
        (ModuleNotFoundError("No module named 'diskcache'", name="diskcache"), "'diskcache', which is not installed", "pip install"),
        (RuntimeError("Failed to load 'x.so':\n no GLIBC"), "cannot be loaded: Failed to load 'x.so': no GLIBC", "reinstall"),
        (OSError("exec format"), "cannot be loaded: exec format", "reinstall"),
    ],
)
def test_a_missing_or_broken_package(monkeypatch: pytest.MonkeyPatch, raised: Exception, says: str, hint: str) -> None:
    def fail(name: str) -> Any:
        raise raised

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ConfigError, match=says) as caught:
        devices()
    assert hint in caught.value.hint


def test_a_package_that_lacks_an_option_is_an_error_not_a_silence() -> None:
    lib = library.library()
    with pytest.raises(ConfigError, match="does not know n_gpu_lairs"):
        lib.load_model(Path("x.gguf"), {"n_gpu_lairs": 3})


def test_a_function_that_ggml_lacks() -> None:
    with pytest.raises(EngineError, match="does not export ggml_fly"):
        library.library().ggml("ggml_fly", [], None)


def test_the_library_is_loaded_once() -> None:
    assert library.library() is library.library()
    assert isinstance(library.library(), Library)


def test_devices_lists_the_cpu() -> None:
    found = devices()
    cpu = [device for device in found if device.kind is DeviceKind.CPU]
    assert len(cpu) == 1
    assert cpu[0].backend
    assert cpu[0].description
    assert not cpu[0].holds_layers
    with pytest.raises(ConfigError, match="no device 'Warp9'"):
        load(Path(__file__), LlamaOptions(device="Warp9"))


def test_loading_and_running_print_nothing(tiny_files: Callable[[str], Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF but not really")
    code = """
from pathlib import Path
from outrider.errors import OutriderError
from outrider.llama import load
from outrider.model import Segment
try:
    load(Path(sys.argv[2]))
except OutriderError:
    pass
model = load(Path(sys.argv[1]))
model.evaluate([Segment(model.open(), (1, 2, 3))]).argmax([2])
forgotten = load(Path(sys.argv[1]))
model.close()
"""
    done = python(code, str(tiny_files("llama")), str(bad))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_debugger_is_attached_on_a_crash() -> None:
    done = python("import os; from outrider.llama import devices; devices(); print(os.environ['GGML_NO_BACKTRACE'])")
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize(("given", "expected"), [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")])
def test_threads_spin_for_a_moment_only_unless_the_user_says_otherwise(
    given: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    done = python("import os; from outrider.llama import devices; devices(); print(os.environ.get('GOMP_SPINCOUNT'))")
    assert done.stdout.strip() == expected


def test_when_llama_cpp_stops_the_process_it_leaves_one_line_and_our_exit_code(tmp_path: Path) -> None:
    twice = TinyModel(tokens=[*byte_letters(), "<s>", "</s>", "ab", "x"]).write(tmp_path / "twice.gguf")  # the header check refuses it
    done = python("from pathlib import Path; from outrider.llama import load; load(Path(sys.argv[1]))", str(twice))
    assert done.returncode == EXIT_CODES[EngineError]
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: llama.cpp stopped at an internal check: llama-vocab.cpp:")
