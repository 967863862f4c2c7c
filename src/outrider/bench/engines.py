"""Loads the engines that are to be measured, as `outrider run` would load them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final

import outrider
from outrider import native
from outrider.backends import choose_backend
from outrider.bench.curve import Contender
from outrider.bench.plan import CurvePlan
from outrider.bench.provenance import llama_version
from outrider.config import ModelOptions
from outrider.cpus import usable_cpus
from outrider.errors import ConfigError, UnsupportedModelError
from outrider.llama.library import INSTALL_HINT
from outrider.model_header import ModelHeader
from outrider.native.options import ISA_VARIABLE

ENGINES: Final = ("native", "llama")
_STREAM_BYTES: Final = 1 << 28  # far more than any last-level cache of the machines that we know


def engine_names(asked: str | None) -> tuple[str, ...]:
    """The engines behind `--backend`; without it, those that are installed.

    Raises:
        ConfigError: an unknown word, or an engine that is not installed.
    """
    if asked is None:
        found = tuple(name for name in ENGINES if not _missing(name))
        return found or _refuse("native")
    if asked not in (*ENGINES, "both"):
        raise ConfigError(f"--backend is {asked!r}", f"choose one of: {', '.join(ENGINES)}, both")
    names = ENGINES if asked == "both" else (asked,)
    for name in names:
        if _missing(name):
            _refuse(name)
    return names


def _missing(name: str) -> bool:
    return not native.is_available() if name == "native" else find_spec("llama_cpp") is None


def _refuse(name: str) -> tuple[str, ...]:
    if name == "native":
        raise ConfigError("this installation was built without the native engine", "install again from source, with a C++20 compiler")
    raise ConfigError("llama.cpp is not installed", f"leave it out with --backend native, or install it; {INSTALL_HINT}")


@contextmanager
def instruction_set(isa: str | None) -> Iterator[None]:
    """Inside, the native engine takes this instruction set, whatever the environment says; None changes nothing.

    Raises:
        ConfigError: this CPU has no such kernels.
    """
    if isa is None:
        yield
        return
    if native.is_available() and isa not in native.instruction_sets():
        raise ConfigError(f"--isa is {isa!r}, which cannot run here", f"this CPU has {', '.join(native.instruction_sets())}")
    before = os.environ.get(ISA_VARIABLE)
    os.environ[ISA_VARIABLE] = isa
    try:
        yield
    finally:
        if before is None:
            del os.environ[ISA_VARIABLE]
        else:
            os.environ[ISA_VARIABLE] = before


def check_room(header: ModelHeader, plan: CurvePlan) -> None:
    """Refuse a plan that the model has no positions for.

    Raises:
        ConfigError: context and rows together are more than the model was trained on.
    """
    trained = header.parameters.n_context_train
    if trained and plan.n_context > trained:
        widest = plan.n_context - max(plan.contexts)
        raise ConfigError(
            f"--context {max(plan.contexts)} and a pass of {widest} rows need {plan.n_context} positions, and the model has {trained}",
            "lower --context, --rows or --prompt-rows",
        )


class Engines:
    """The loaded engines of one model file; use it in a `with` block.

    Args:
        header: of the file.
        options: as the user gave them; backend, context, threads and device follow from the rest.
        names: of the engines.
        plan: how much room they need.

    Attributes:
        threads: of every engine.
        contenders: the loaded engines.
        notices: what was decided or ignored while loading, one line each.

    Raises:
        ConfigError, UnsupportedModelError, OutOfMemoryError: an engine cannot run this.
    """

    def __init__(self, header: ModelHeader, options: ModelOptions, names: tuple[str, ...], plan: CurvePlan) -> None:
        self.threads = options.threads or usable_cpus()
        self.contenders: list[Contender] = []
        self.notices: list[str] = []
        # llama.cpp built for a GPU would send wide passes there even with no layer on it, and the limits are those of the CPU.
        self._options = replace(options, context=plan.n_context, threads=self.threads, device="none", gpu_layers=0, draft_gpu_layers=0)
        with ExitStack() as undo:
            for name in names:
                backend = choose_backend(replace(self._options, backend=name), [header])
                # A draft of that many tokens makes a pass of the plan's rows: the port has no other word for room.
                model, _ = backend.load_target(header, replace(self._options, backend=name), plan.max_rows - 1)
                undo.callback(model.close)
                if model.capabilities.rollback == "none":
                    raise UnsupportedModelError(
                        f"{name} cannot drop rows of this model", "its passes cannot be repeated: measure another one"
                    )
                self.contenders.append(Contender(name, model))
                self.notices += backend.notices
            self._close = undo.pop_all()

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    def describe(self) -> Mapping[str, Mapping[str, Any]]:
        """Name to version, device and cache types of each engine."""
        versions = {"native": f"outrider {outrider.__version__}", "llama": f"llama-cpp-python {llama_version()}"}
        cache = f"{self._options.cache_type_k}/{self._options.cache_type_v}"
        return {
            name: {"version": versions[name], "device": model.capabilities.device, "cache": cache}
            for name, model in ((contender.name, contender.model) for contender in self.contenders)
        }


def probed_isa() -> str | None:
    """The instruction set that the int8 limit is measured with; None without a core. Raises ConfigError for one that cannot run."""
    if not native.is_available():
        return None
    known = native.instruction_sets()
    asked = os.environ.get(ISA_VARIABLE) or known[0]
    if asked not in known:
        raise ConfigError(f"{ISA_VARIABLE} is {asked!r}, which cannot run here", f"unset it, or choose from {', '.join(known)}")
    return asked


def probe(threads: int, isa: str | None) -> tuple[float, float] | None:
    """Memory GB/s and int8 GMAC/s of the machine at this moment; None without a core to measure with."""
    return None if isa is None else native.machine_limits(threads, isa, _STREAM_BYTES)
