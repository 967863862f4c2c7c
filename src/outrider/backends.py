"""Which backend runs a model, and what it makes of the options."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final, Protocol

from outrider import llama, native
from outrider.config import ModelOptions
from outrider.errors import ConfigError, OutriderError, UnsupportedModelError
from outrider.llama.devices import CPU_NAMES
from outrider.llama.library import INSTALL_HINT
from outrider.model import LanguageModel
from outrider.model_header import ModelHeader
from outrider.text.tokenizer import Tokenizer

_INSTALL_LLAMA: Final = f"install it; {INSTALL_HINT}"


class Backend(Protocol):
    """Loads the models of one pair."""

    notices: list[str]

    def load_target(self, file: ModelHeader, options: ModelOptions, draft_max: int) -> tuple[LanguageModel, Tokenizer]:
        """The target and its tokenizer."""
        ...

    def load_draft(self, file: ModelHeader, options: ModelOptions, n_context: int) -> LanguageModel:
        """The draft model, for texts of up to `n_context` tokens."""
        ...


@dataclass(slots=True)
class LlamaBackend:
    """llama.cpp, through llama-cpp-python.

    Attributes:
        notices: what was decided or ignored, one line each.
    """

    notices: list[str] = field(default_factory=list)

    def load_target(self, file: ModelHeader, options: ModelOptions, draft_max: int) -> tuple[LanguageModel, Tokenizer]:
        """The target and its tokenizer."""
        model = llama.load(file.path, llama.target_options(options, draft_max=draft_max))
        self.notices += model.notices
        return model, model.tokenizer

    def load_draft(self, file: ModelHeader, options: ModelOptions, n_context: int) -> LanguageModel:
        """The draft model."""
        model = llama.load(file.path, llama.draft_options(options, n_context))
        self.notices += model.notices
        return model


@dataclass(slots=True)
class NativeBackend:
    """Our own core, on the CPU.

    Attributes:
        notices: what was decided or ignored, one line each.
    """

    notices: list[str] = field(default_factory=list)

    def load_target(self, file: ModelHeader, options: ModelOptions, draft_max: int) -> tuple[LanguageModel, Tokenizer]:
        """The target and its tokenizer."""
        tokenizer = native.NativeTokenizer(file.vocabulary)
        if doubt := native.doubtful_tokenizer(file.vocabulary):
            self.notices.append(doubt)
        model = native.load_checked(
            file.split,
            file.parameters,
            native.NativeOptions(
                n_context=options.context,
                max_rows=max(native.PROMPT_ROWS, draft_max + 1),
                threads=options.threads,
                cache_type_k=options.cache_type_k,
                cache_type_v=options.cache_type_v,
            ),
        )
        return model, tokenizer

    def load_draft(self, file: ModelHeader, options: ModelOptions, n_context: int) -> LanguageModel:
        """The draft model."""
        return native.load_checked(
            file.split,
            file.parameters,
            native.NativeOptions(n_context=n_context, cap_context=True, threads=options.draft_threads or options.threads),
        )


def choose_backend(options: ModelOptions, files: list[ModelHeader]) -> Backend:
    """The backend for a target and perhaps a draft model: native on a CPU wherever it can, llama.cpp for everything else.

    Raises:
        ConfigError: the backend that was asked for cannot do what other options ask for.
        UnsupportedModelError: the native engine was asked for, or is the only one here, and cannot run a model.
    """
    if options.backend == "llama":
        return LlamaBackend()
    placed = _placed_elsewhere(options)
    if options.backend == "native":
        if placed:
            raise ConfigError(
                f"--backend native contradicts {placed}",
                f"it runs on the CPU with a cache of {' or '.join(native.CACHE_TYPES)}: drop one of the two",
            )
        _check_native(files)
        return _native(options)
    has_llama = find_spec("llama_cpp") is not None
    if placed:
        if not has_llama:
            raise ConfigError(f"{placed} needs llama.cpp, which is not installed", _INSTALL_LLAMA)
        return LlamaBackend([f"llama.cpp runs this, because of {placed}"])
    reason = _unsupported(files)
    if reason and not has_llama:
        raise UnsupportedModelError(f"{reason}, and llama.cpp is not installed", _INSTALL_LLAMA)
    slow = "" if reason or native.has_fast_kernels() else "the native engine has no fast kernels for this CPU yet"
    if reason or (slow and has_llama):
        return LlamaBackend([f"llama.cpp runs this: {reason or slow}"])
    return _native(options, [f"{slow}; llama.cpp would be faster"] if slow else [])


def _native(options: ModelOptions, notices: Seq[str] = ()) -> NativeBackend:
    """Raises ConfigError for more threads than the core takes."""
    for flag, threads in (("-t/--threads", options.threads), ("-td/--threads-draft", options.draft_threads)):
        if threads > native.MAX_THREADS:
            raise ConfigError(f"{flag} is {threads}", f"the native engine takes 0 to {native.MAX_THREADS}; 0 means every CPU it may use")
    return NativeBackend([*_native_notices(options), *notices])


def _check_native(files: list[ModelHeader]) -> None:
    reason = _unsupported(files)
    if reason:
        raise UnsupportedModelError(reason, "use --backend llama")


def _unsupported(files: list[ModelHeader]) -> str:
    """Why the native engine cannot run these files; "" if it can."""
    if not native.is_available():
        return "this installation was built without the native engine"
    for file in files:
        reason = native.unsupported_reason(file.split, file.parameters) or native.unknown_tokenizer(file.vocabulary)
        if reason:
            return reason
    return ""


def _placed_elsewhere(options: ModelOptions) -> str:
    """What asks for something that only llama.cpp has; "" if nothing does."""
    if options.device is not None and options.device.strip().lower() not in CPU_NAMES:
        return f"--device {options.device}"
    for flag, word in (("-ctk", options.cache_type_k), ("-ctv", options.cache_type_v)):
        if word not in native.CACHE_TYPES:
            return f"{flag} {word}"
    if (options.gpu_layers or options.draft_gpu_layers) and options.device is None and _has_gpu():
        return "-ngl" if options.gpu_layers else "-ngld"
    return ""


def _has_gpu() -> bool:
    if find_spec("llama_cpp") is None:
        return False
    try:
        return any(device.holds_layers for device in llama.devices())
    except OutriderError:
        return False


def _native_notices(options: ModelOptions) -> list[str]:
    """What was asked for and changes nothing on the CPU."""
    notices = []
    layers = [f"{flag} {n}" for flag, n in (("-ngl", options.gpu_layers), ("-ngld", options.draft_gpu_layers)) if n]
    if layers:
        notices.append(f"{' and '.join(layers)}: there is no GPU that can be used here, so every layer runs on the CPU")
    if options.no_kv_offload:
        notices.append("-nkvo: the native engine keeps its cache in ordinary memory anyway, so this changes nothing")
    if options.flash_attention == "off":
        notices.append("-fa off: the native engine has one way to attend, so this changes nothing")
    return notices
