"""What llama.cpp can compute on, and which of it a model is put on."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from outrider.errors import ConfigError
from outrider.llama.library import DeviceHandle, Library, library

CPU_NAMES: Final = ("none", "cpu")
"""What `--device` accepts for: no device but the CPU."""


class DeviceKind(StrEnum):
    """ggml's kinds of device, in the order of its enum."""

    CPU = "cpu"
    GPU = "gpu"
    INTEGRATED_GPU = "integrated gpu"
    ACCELERATOR = "accelerator"  # helps the CPU, holds no layers (BLAS, AMX)
    META = "meta"


@dataclass(frozen=True, slots=True)
class Device:
    """One device that this build of llama.cpp can use.

    Attributes:
        name: what `--device` calls it, for example CUDA0.
        description: the vendor's name of the hardware.
        backend: ggml's backend that drives it.
        kind: what it is.
        free_bytes, total_bytes: its memory when it was listed; 0 where the backend doesn't say.
        handle: ggml's handle, valid for the life of the process.
    """

    name: str
    description: str
    backend: str
    kind: DeviceKind
    free_bytes: int
    total_bytes: int
    handle: DeviceHandle

    @property
    def holds_layers(self) -> bool:
        """Whether -ngl can put layers on it."""
        return self.kind in (DeviceKind.GPU, DeviceKind.INTEGRATED_GPU)


def devices() -> list[Device]:
    """Every device of every backend in this build, the CPU included, in llama.cpp's order.

    Raises ConfigError where the library cannot be loaded.
    """
    lib = library()
    count = lib.ggml("ggml_backend_dev_count", [], ctypes.c_size_t)()
    get = lib.ggml("ggml_backend_dev_get", [ctypes.c_size_t], ctypes.c_void_p)
    return [_device(lib, DeviceHandle(get(index))) for index in range(count)]


def layer_devices(available: Seq[Device]) -> list[Device]:
    """The devices that llama.cpp would spread layers over by default: discrete GPUs, else integrated ones."""
    discrete = [device for device in available if device.kind is DeviceKind.GPU]
    return discrete or [device for device in available if device.kind is DeviceKind.INTEGRATED_GPU]


def chosen_devices(option: str | None, available: Seq[Device]) -> list[Device] | None:
    """What an explicit `--device` asks for: [] for the CPU alone, None where the option was not given.

    Args:
        option: names separated by commas, in any case; or one of CPU_NAMES.
        available: from `devices`.

    Raises:
        ConfigError: a name that is not there, or a device that cannot hold layers.
    """
    if option is None:
        return None
    names = [name.strip() for name in option.split(",")]
    if len(names) == 1 and names[0].lower() in CPU_NAMES:
        return []
    usable = {device.name.lower(): device for device in available if device.holds_layers}
    for name in names:
        if name.lower() not in usable:
            there = ", ".join([*(device.name for device in usable.values()), "none (the CPU)"])
            raise ConfigError(f"--device {option}: there is no device {name!r}", f"this build of llama-cpp-python has: {there}")
    return [usable[name.lower()] for name in dict.fromkeys(names)]


def _device(lib: Library, handle: DeviceHandle) -> Device:
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    size_p = ctypes.POINTER(ctypes.c_size_t)
    lib.ggml("ggml_backend_dev_memory", [ctypes.c_void_p, size_p, size_p], None)(handle, free, total)
    registry = lib.ggml("ggml_backend_dev_backend_reg", [ctypes.c_void_p], ctypes.c_void_p)(handle)
    return Device(
        name=_text(lib, "ggml_backend_dev_name", handle),
        description=_text(lib, "ggml_backend_dev_description", handle),
        backend=_text(lib, "ggml_backend_reg_name", registry),
        kind=list(DeviceKind)[lib.ggml("ggml_backend_dev_type", [ctypes.c_void_p], ctypes.c_int)(handle)],
        free_bytes=free.value,
        total_bytes=total.value,
        handle=handle,
    )


def _text(lib: Library, function: str, handle: int) -> str:
    value = lib.ggml(function, [ctypes.c_void_p], ctypes.c_char_p)(handle)
    return value.decode("utf-8", errors="replace") if value else ""
