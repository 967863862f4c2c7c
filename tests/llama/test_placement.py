"""-ngl and --device on machines that this one is not."""

from __future__ import annotations

import pytest

from outrider.errors import ConfigError
from outrider.llama import LlamaOptions, placement
from outrider.llama.devices import Device, DeviceKind
from outrider.llama.library import DeviceHandle


def device(name: str, kind: DeviceKind, handle: int) -> Device:
    return Device(name, f"a {kind}", "test", kind, 1, 2, DeviceHandle(handle))


CPU = device("CPU", DeviceKind.CPU, 1)
BLAS = device("BLAS", DeviceKind.ACCELERATOR, 2)
GPU = device("CUDA0", DeviceKind.GPU, 3)
GPU_2 = device("CUDA1", DeviceKind.GPU, 4)
INTEGRATED = device("Vulkan0", DeviceKind.INTEGRATED_GPU, 5)


def place(monkeypatch: pytest.MonkeyPatch, available: list[Device], **options: object) -> placement.Placement:
    monkeypatch.setattr(placement, "devices", lambda: available)
    return placement.place(LlamaOptions(**options))  # type: ignore[arg-type]


def test_layers_without_a_gpu_are_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = place(monkeypatch, [CPU, BLAS], gpu_layers=99, layers_flag="-ngld")
    assert (placed.handles, placed.gpu_layers, placed.label, placed.offloads) == (None, 0, "cpu", False)
    assert len(placed.notices) == 1
    assert placed.notices[0].startswith("-ngld 99:")


def test_nothing_asked_nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place(monkeypatch, [CPU]).notices == []
    assert place(monkeypatch, [CPU, GPU]).notices == []


def test_layers_go_to_the_discrete_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = place(monkeypatch, [GPU, GPU_2, INTEGRATED, CPU], gpu_layers=-1)
    assert (placed.handles, placed.gpu_layers, placed.offloads) == (None, -1, True)
    assert placed.label == "CUDA0 (a gpu), CUDA1 (a gpu)"
    assert place(monkeypatch, [INTEGRATED, CPU], gpu_layers=1).label == "Vulkan0 (a integrated gpu)"


@pytest.mark.parametrize("word", ["none", "CPU", "cpu", "None"])
def test_the_cpu_alone(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    placed = place(monkeypatch, [GPU, CPU], device=word, gpu_layers=7)
    assert (placed.handles, placed.gpu_layers, placed.label) == ((), 0, "cpu")
    assert len(placed.notices) == 1
    assert place(monkeypatch, [GPU, CPU], device=word).notices == []


def test_explicit_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = place(monkeypatch, [GPU, GPU_2, CPU], device="cuda1, CUDA0,cuda1", gpu_layers=5)
    assert placed.handles == (GPU_2.handle, GPU.handle)


def test_a_device_without_layers_is_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = place(monkeypatch, [GPU, CPU], device="CUDA0")
    assert placed.label == "cpu"
    assert "-ngl" in placed.notices[0]


@pytest.mark.parametrize("word", ["CUDA9", "CUDA0,Vulkan7", "", "cpu,CUDA0", "BLAS", "CPU,none"])
def test_a_device_that_is_not_there_names_those_that_are(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    with pytest.raises(ConfigError, match="there is no device") as caught:
        place(monkeypatch, [GPU, GPU_2, BLAS, CPU], device=word)
    assert "CUDA0, CUDA1, none (the CPU)" in caught.value.hint
