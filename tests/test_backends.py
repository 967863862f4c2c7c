"""Which backend runs a model: every combination of options, files and what is installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outrider import backends
from outrider.backends import LlamaBackend, NativeBackend, choose_backend
from outrider.config import ModelOptions
from outrider.errors import ConfigError, OutriderError, UnsupportedModelError
from outrider.llama import Device
from outrider.llama.devices import DeviceKind
from outrider.llama.library import DeviceHandle
from outrider.model_header import ModelHeader
from tests.gguf_files import tiny_model

CPU = Device("CPU", "a processor", "CPU", DeviceKind.CPU, 0, 0, DeviceHandle(1))
GPU = Device("CUDA0", "a card", "CUDA", DeviceKind.GPU, 0, 0, DeviceHandle(2))
WHY_NOT = "the native engine does not know the architecture 'x'"
SLOW = "the native engine has no fast kernels for this CPU yet"
INSTALL = "install it; in a clone: .venv/bin/python scripts/install.py --llama; elsewhere: pip install llama-cpp-python"


@dataclass
class Here:
    """What the machine and the installation have."""

    llama: bool = True
    gpu: bool = False
    core: bool = True
    supported: bool = True
    fast: bool = True
    broken_llama: bool = False


@pytest.fixture
def file(tmp_path: Path) -> ModelHeader:
    return ModelHeader.read(tiny_model().write(tmp_path / "m.gguf"))


def choose(monkeypatch: pytest.MonkeyPatch, file: ModelHeader, here: Here, **options: Any) -> NativeBackend | LlamaBackend:
    def devices() -> list[Device]:
        if here.broken_llama:
            raise ConfigError("libllama cannot be loaded")
        return [CPU, GPU] if here.gpu else [CPU]

    monkeypatch.setattr(backends, "find_spec", lambda name: object() if here.llama else None)
    monkeypatch.setattr(backends.llama, "devices", devices)
    monkeypatch.setattr(backends.native, "is_available", lambda: here.core)
    monkeypatch.setitem(vars(backends.native), "unsupported_reason", lambda split, parameters: None if here.supported else WHY_NOT)
    monkeypatch.setitem(vars(backends.native), "unknown_tokenizer", lambda vocabulary: None)
    monkeypatch.setattr(backends.native, "has_fast_kernels", lambda: here.fast)
    chosen = choose_backend(ModelOptions(**options), [file])
    assert isinstance(chosen, NativeBackend | LlamaBackend)
    return chosen


NGL = "there is no GPU that can be used here, so every layer runs on the CPU"
NKVO = "-nkvo: the native engine keeps its cache in ordinary memory anyway, so this changes nothing"
CHOSEN: list[tuple[Here, dict[str, Any], type, list[str]]] = [
    # native wherever it can
    (Here(), {}, NativeBackend, []),
    (Here(llama=False), {}, NativeBackend, []),
    (Here(gpu=True), {}, NativeBackend, []),
    (Here(), {"backend": "native"}, NativeBackend, []),
    (Here(fast=False), {"backend": "native"}, NativeBackend, []),
    (Here(), {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, NativeBackend, []),
    (Here(), {"backend": "native", "cache_type_v": "q8_0"}, NativeBackend, []),
    # the CPU by name, in any case
    (Here(gpu=True), {"device": "none", "gpu_layers": 99}, NativeBackend, [f"-ngl 99: {NGL}"]),
    (Here(), {"device": "cpu"}, NativeBackend, []),
    (Here(), {"device": "CPU"}, NativeBackend, []),
    # layers for a GPU that is not there
    (Here(), {"gpu_layers": 99, "draft_gpu_layers": 99}, NativeBackend, [f"-ngl 99 and -ngld 99: {NGL}"]),
    (Here(llama=False), {"gpu_layers": -1}, NativeBackend, [f"-ngl -1: {NGL}"]),
    (Here(broken_llama=True), {"draft_gpu_layers": 7}, NativeBackend, [f"-ngld 7: {NGL}"]),
    (Here(), {"backend": "native", "gpu_layers": 1}, NativeBackend, [f"-ngl 1: {NGL}"]),
    (Here(), {"no_kv_offload": True}, NativeBackend, [NKVO]),
    (Here(), {"no_kv_offload": True, "backend": "native"}, NativeBackend, [NKVO]),
    (Here(gpu=True), {"no_kv_offload": True, "gpu_layers": 9}, LlamaBackend, ["llama.cpp runs this, because of -ngl"]),
    (Here(), {"threads": 256, "draft_threads": 256}, NativeBackend, []),
    (Here(), {"threads": 257, "backend": "llama"}, LlamaBackend, []),
    (Here(), {"flash_attention": "off"}, NativeBackend, ["-fa off: the native engine has one way to attend, so this changes nothing"]),
    (Here(), {"flash_attention": "on"}, NativeBackend, []),
    # llama.cpp for everything else
    (Here(), {"backend": "llama"}, LlamaBackend, []),
    (Here(llama=False), {"backend": "llama"}, LlamaBackend, []),  # it says itself that it is missing
    (Here(gpu=True), {"gpu_layers": 99}, LlamaBackend, ["llama.cpp runs this, because of -ngl"]),
    (Here(gpu=True), {"draft_gpu_layers": 99}, LlamaBackend, ["llama.cpp runs this, because of -ngld"]),
    (Here(gpu=True), {"device": "CUDA0"}, LlamaBackend, ["llama.cpp runs this, because of --device CUDA0"]),
    (Here(), {"cache_type_k": "q4_0"}, LlamaBackend, ["llama.cpp runs this, because of -ctk q4_0"]),
    (Here(), {"cache_type_k": "q8_0", "cache_type_v": "bf16"}, LlamaBackend, ["llama.cpp runs this, because of -ctv bf16"]),
    (Here(supported=False), {}, LlamaBackend, [f"llama.cpp runs this: {WHY_NOT}"]),
    (Here(core=False), {}, LlamaBackend, ["llama.cpp runs this: this installation was built without the native engine"]),
    # scalar kernels only
    (Here(fast=False), {}, LlamaBackend, [f"llama.cpp runs this: {SLOW}"]),
    (Here(fast=False, llama=False), {}, NativeBackend, [f"{SLOW}; llama.cpp would be faster"]),
]


@pytest.mark.parametrize(("here", "options", "kind", "notices"), CHOSEN)
def test_choice_and_notices(
    monkeypatch: pytest.MonkeyPatch, file: ModelHeader, here: Here, options: dict[str, Any], kind: type, notices: list[str]
) -> None:
    chosen = choose(monkeypatch, file, here, **options)
    assert type(chosen) is kind
    assert chosen.notices == notices


CONTRADICTS = "--backend native contradicts "
ON_CPU = "it runs on the CPU with a cache of f16 or q8_0: drop one of the two"
THREADS = "the native engine takes 0 to 256; 0 means every CPU it may use"
REFUSED: list[tuple[Here, dict[str, Any], type[OutriderError], str, str]] = [
    (Here(), {"backend": "native", "cache_type_k": "q5_1"}, ConfigError, f"{CONTRADICTS}-ctk q5_1", ON_CPU),
    (Here(), {"backend": "native", "device": "CUDA0"}, ConfigError, f"{CONTRADICTS}--device CUDA0", ON_CPU),
    (Here(gpu=True), {"backend": "native", "gpu_layers": 9}, ConfigError, f"{CONTRADICTS}-ngl", ON_CPU),
    (Here(), {"threads": 257}, ConfigError, "-t/--threads is 257", THREADS),
    (Here(), {"backend": "native", "draft_threads": 1000}, ConfigError, "-td/--threads-draft is 1000", THREADS),
    (Here(supported=False), {"backend": "native"}, UnsupportedModelError, WHY_NOT, "use --backend llama"),
    (
        Here(core=False),
        {"backend": "native"},
        UnsupportedModelError,
        "this installation was built without the native engine",
        "use --backend llama",
    ),
    (Here(llama=False), {"device": "CUDA0"}, ConfigError, "--device CUDA0 needs llama.cpp, which is not installed", INSTALL),
    (Here(llama=False), {"cache_type_v": "q4_0"}, ConfigError, "-ctv q4_0 needs llama.cpp, which is not installed", INSTALL),
    (Here(llama=False, supported=False), {}, UnsupportedModelError, f"{WHY_NOT}, and llama.cpp is not installed", INSTALL),
    (
        Here(llama=False, core=False),
        {},
        UnsupportedModelError,
        "this installation was built without the native engine, and llama.cpp is not installed",
        INSTALL,
    ),
]


@pytest.mark.parametrize(("here", "options", "error", "message", "hint"), REFUSED)
def test_refusals(
    monkeypatch: pytest.MonkeyPatch,
    file: ModelHeader,
    here: Here,
    options: dict[str, Any],
    error: type[OutriderError],
    message: str,
    hint: str,
) -> None:
    with pytest.raises(error) as caught:
        choose(monkeypatch, file, here, **options)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_without_a_core_nothing_asks_it_what_it_supports(monkeypatch: pytest.MonkeyPatch, file: ModelHeader) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: object())
    monkeypatch.setattr(backends.native, "is_available", lambda: False)
    for name in ("unsupported_reason", "unknown_tokenizer", "has_fast_kernels"):
        monkeypatch.setitem(vars(backends.native), name, lambda *_: pytest.fail("the core was asked"))
    assert isinstance(choose_backend(ModelOptions(), [file]), LlamaBackend)


def test_one_unsupported_file_of_two_decides(monkeypatch: pytest.MonkeyPatch, file: ModelHeader) -> None:
    monkeypatch.setattr(backends.native, "is_available", lambda: True)
    other = ModelHeader(file.path, file.split, file.parameters, file.vocabulary)
    monkeypatch.setattr(backends, "find_spec", lambda name: object())
    monkeypatch.setattr(backends.native, "has_fast_kernels", lambda: True)
    monkeypatch.setitem(vars(backends.native), "unsupported_reason", lambda split, parameters: None)
    reasons = iter([None, "no such tokenizer"])
    monkeypatch.setitem(vars(backends.native), "unknown_tokenizer", lambda vocabulary: next(reasons))
    chosen = choose_backend(ModelOptions(), [file, other])
    assert isinstance(chosen, LlamaBackend)
    assert chosen.notices == ["llama.cpp runs this: no such tokenizer"]
