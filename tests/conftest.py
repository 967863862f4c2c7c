"""Real model files for the tests that want them, and a guard that keeps every other test off the network."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

WANTED = os.environ.get("OUTRIDER_TEST_MODELS", "none")  # none, small (SmolLM2) or full (the Qwen pair too)
MODEL_FIXTURES = {"smollm2_path", "qwen_target_path", "qwen_draft_path"}
MODEL_TIMEOUT_S = 1800  # a guard against hanging, not a speed limit: pulling 1.6 GB and decoding on a slow machine both fit

# A shell without job control starts background jobs with Ctrl-C ignored, and programs that they start inherit it: the tests of
# interruptions would wait for nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("outrider", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("outrider")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if MODEL_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.needs_models)
            item.add_marker(pytest.mark.timeout(MODEL_TIMEOUT_S))


NEEDED = {
    "native": {"outrider.native._core": "the native core was not built", "gguf": "the package gguf is not installed"},
    "llama": {"llama_cpp": "llama-cpp-python is not installed", "gguf": "the package gguf is not installed"},
}
"""What the modules of a test folder import, and why they are skipped without it."""


class SkippedModule(pytest.Module):
    """A module that cannot even be imported here; `reason` is printed."""

    reason = ""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        pytest.skip(self.reason, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    reasons = [why for name, why in NEEDED.get(module_path.parent.name, {}).items() if find_spec(name) is None]
    if not reasons:
        return None
    module: SkippedModule = SkippedModule.from_parent(parent, path=module_path)
    module.reason = reasons[0]
    return module


class LoopbackGuard:
    """Refuses connections that leave this machine, except while a model is being pulled."""

    def __init__(self) -> None:
        self.pulling = False

    def check(self, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else "localhost"
        if not self.pulling and not _is_loopback(host):
            raise AssertionError(f"a test tried to reach {host}; tests talk to this machine only")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


GUARD = LoopbackGuard()


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(self: socket.socket, address: Any) -> None:
        GUARD.check(address)
        connect(self, address)

    def guarded_ex(self: socket.socket, address: Any) -> int:
        GUARD.check(address)
        return connect_ex(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        patch.setattr(socket.socket, "connect_ex", guarded_ex)
        yield


def model_file(name: str, *, pull_when: set[str]) -> Path:
    """The file of a catalogue model: where it is cached, else pulled if OUTRIDER_TEST_MODELS asks for it, else a skip."""
    from outrider.models import catalogue, resolve, store

    model = catalogue.find(name)
    cached = store.models_directory() / model.file_name
    if cached.is_file() and cached.stat().st_size == model.n_bytes:
        return cached
    if WANTED not in pull_when:
        pytest.skip(f"{name} ({model.n_bytes / 1e6:.0f} MB) is not here; OUTRIDER_TEST_MODELS={' or '.join(sorted(pull_when))} pulls it")
    GUARD.pulling = True
    try:
        return resolve.ensure(name)
    finally:
        GUARD.pulling = False


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct Q4_1: small enough to be pulled for every test run that allows it."""
    return model_file("smollm2-135m", pull_when={"small", "full"})


@pytest.fixture(scope="session")
def qwen_target_path() -> Path:
    """Qwen2.5-Coder-1.5B-Instruct Q4_K_M, the target of the pair."""
    return model_file("qwen2.5-coder-1.5b", pull_when={"full"})


@pytest.fixture(scope="session")
def qwen_draft_path() -> Path:
    """Qwen2.5-Coder-0.5B-Instruct Q4_K_M, the pair's draft."""
    return model_file("qwen2.5-coder-0.5b", pull_when={"full"})
