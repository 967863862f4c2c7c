"""Where a model's layers go, and what the user should be told about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.llama.devices import CPU_NAMES, Device, chosen_devices, devices, layer_devices
from outrider.llama.library import DeviceHandle
from outrider.llama.options import LlamaOptions


@dataclass(frozen=True, slots=True)
class Placement:
    """The outcome of -ngl and --device on this machine.

    Attributes:
        handles: devices for llama.cpp; () for the CPU alone, None for its own choice.
        gpu_layers: layers to offload, -1 for all.
        label: where the weights live, for reports.
        notices: one line for everything that was asked for and doesn't happen.
    """

    handles: tuple[DeviceHandle, ...] | None
    gpu_layers: int
    label: str
    notices: list[str] = field(default_factory=list)

    @property
    def offloads(self) -> bool:
        """Whether any layer leaves the CPU."""
        return self.gpu_layers != 0


def place(options: LlamaOptions) -> Placement:
    """Decide. Raises ConfigError for an explicit device that is not there."""
    available = devices()
    chosen = chosen_devices(options.device, available)
    wanted, flag = options.gpu_layers, f"{options.layers_flag} {options.gpu_layers}"
    if chosen == []:
        told = [f"{flag} has no effect with --device {CPU_NAMES[0]}: running on the CPU"] if wanted else []
        return Placement((), 0, "cpu", told)
    usable = layer_devices(available) if chosen is None else chosen
    if not usable:
        told = [f"{flag}: this build of llama-cpp-python sees no GPU, running on the CPU"] if wanted else []
        return Placement(None, 0, "cpu", told)
    handles = None if chosen is None else tuple(device.handle for device in chosen)
    if not wanted:
        why = f"--device {options.device} holds no layers without {options.layers_flag}: running on the CPU"
        told = [] if chosen is None else [why]
        return Placement(handles, 0, "cpu", told)
    return Placement(handles, wanted, _label(usable))


def _label(usable: list[Device]) -> str:
    return ", ".join(f"{device.name} ({device.description})" for device in usable)
