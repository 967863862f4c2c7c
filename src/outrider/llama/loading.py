"""From a file and options to a model that is ready: every native step is checked, and undone if a later one fails."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Literal, TypeVar

from outrider.cpus import usable_cpus
from outrider.errors import ConfigError, EngineError, ModelMissingError, UnsupportedModelError
from outrider.llama.batch import Batch
from outrider.llama.cache import KvCache
from outrider.llama.failures import context_error, load_error, pass_error
from outrider.llama.geometry import cache_geometry, check_cache
from outrider.llama.library import ContextHandle, Library, MemoryHandle, ModelHandle, library
from outrider.llama.model import LlamaModel, Native
from outrider.llama.options import CACHE_TYPE_IDS, DEFAULT_CONTEXT, FLASH_ATTENTION, LlamaOptions
from outrider.llama.placement import Placement, place
from outrider.llama.tokenizer import LlamaTokenizer
from outrider.model import Capabilities

_T = TypeVar("_T")
_H = TypeVar("_H", ModelHandle, ContextHandle)


def load(path: Path, options: LlamaOptions | None = None, progress: Callable[[float], None] | None = None) -> LlamaModel:
    """Load a GGUF file through llama.cpp.

    The file's header should have been checked before (`outrider.gguf`): llama.cpp ends the process for some malformed ones.

    Args:
        path: the file, or the first part of a split one.
        options: how; the defaults are the CPU and one sequence.
        progress: called with the loaded share, 0 to 1, from another thread; what it raises ends the loading.

    Raises:
        ConfigError: llama-cpp-python is missing, a device is not there, or options don't fit this model.
        ModelMissingError, ModelFileError: the file.
        UnsupportedModelError: what llama.cpp cannot run, and what is no left-to-right text model.
        OutOfMemoryError: weights or cache don't fit.
    """
    options = options or LlamaOptions()
    _check_file(path)
    lib = library()
    if options.n_sequences > lib.max_sequences():
        raise ConfigError(f"{options.n_sequences} sequences are more than llama.cpp can run", f"at most {lib.max_sequences()}")
    placement = place(options)
    handle = _load_weights(lib, path, placement, progress)
    try:
        return _finish(lib, handle, path, options, placement)
    except BaseException:
        lib.free_model(handle)
        raise


@dataclass(frozen=True, slots=True)
class _Window:
    """The context that was decided on."""

    n_context: int
    n_cells: int
    notices: list[str]


def _finish(lib: Library, handle: ModelHandle, path: Path, options: LlamaOptions, placement: Placement) -> LlamaModel:
    """Context, tokenizer and probe for loaded weights. The caller frees the weights if this raises."""
    if not lib.is_decoder(handle):
        raise UnsupportedModelError(f"{path.name} is no left-to-right text model", "use a decoder-only model")
    vocab = lib.vocabulary(handle)
    if vocab is None:
        raise UnsupportedModelError(f"{path.name} has no vocabulary", "use a GGUF file that was converted with its vocabulary")
    tokenizer = LlamaTokenizer(lib, vocab)
    window = _window(lib.training_context(handle), options)
    check_cache(cache_geometry(lib, handle), options, window.n_cells, on_cpu=not (placement.offloads and options.kv_offload))
    context = _make_context(lib, handle, path, options, window)
    try:
        memory = _memory(lib, context, path)
        n_cells, max_rows = lib.context_size(context), lib.batch_size(context)
        batch = Batch(lib, max_rows)
        rollback = _probe(lib, handle, context, memory, batch)
        cache = KvCache(lib, memory, n_cells=n_cells, n_sequences=options.n_sequences, window=lib.sliding_window(handle))
        capabilities = Capabilities(
            n_vocab=tokenizer.n_vocab,
            n_context=window.n_context,
            max_rows=max_rows,
            max_sequences=options.n_sequences,
            tree=False,
            deferred_head=False,
            bit_exact=False,
            rollback=rollback,
            backend="llama",
            device=placement.label,
            cache_type_k=options.cache_type_k,
            cache_type_v=options.cache_type_v,
        )
        native = Native(lib=lib, model=handle, context=context, cache=cache, batch=batch)
        return LlamaModel(native, capabilities, tokenizer, placement.notices + window.notices)
    except BaseException:
        lib.free_context(context)
        raise


def _memory(lib: Library, context: ContextHandle, path: Path) -> MemoryHandle:
    memory = lib.memory(context)
    if memory is None:
        raise UnsupportedModelError(f"{path.name} has no KV cache, so it cannot continue a text", "use a decoder-only model")
    return memory


def _check_file(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise ModelMissingError(f"the model file cannot be opened: {reason}", "check the path", path=str(path)) from None


def _load_weights(lib: Library, path: Path, placement: Placement, progress: Callable[[float], None] | None) -> ModelHandle:
    stop = Event()
    raised: list[BaseException] = []

    def report(share: float, _: object) -> bool:
        try:
            if progress is not None:
                progress(share)
        except BaseException as error:  # noqa: BLE001  # nothing may unwind through C; raised again below
            raised.append(error)
            stop.set()
        return not stop.is_set()

    callback = lib.api.llama_progress_callback(report)
    fields: dict[str, Any] = {"n_gpu_layers": placement.gpu_layers, "progress_callback": callback}
    if placement.handles is not None:
        handles = (ctypes.c_void_p * (len(placement.handles) + 1))(*placement.handles, None)
        fields["devices"] = ctypes.addressof(handles)
    lib.log.clear()
    handle = _interruptibly(lambda: lib.load_model(path, fields), stop, lambda loaded: _undo(loaded, lib.free_model))
    if raised:
        if handle is not None:
            lib.free_model(handle)
        raise raised[0]
    if handle is None:
        raise load_error(path, lib.log.reason())
    return handle


def _undo(handle: _H | None, free: Callable[[_H], None]) -> None:
    if handle is not None:
        free(handle)


def _interruptibly(work: Callable[[], _T], stop: Event, undo: Callable[[_T], object]) -> _T:
    """Run native work in a thread of its own: Python handles signals in the main thread only, and only outside native code.

    Args:
        work: what to do; it looks at `stop` now and then.
        stop: set when this thread is interrupted.
        undo: what to do with a result that came although this thread was interrupted.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work)
        try:
            return future.result()
        except BaseException:
            stop.set()
            if future.exception() is None:
                undo(future.result())
            raise


def _window(n_trained: int, options: LlamaOptions) -> _Window:
    """Context and cells. Raises ConfigError for a cache that llama.cpp cannot count."""
    notices: list[str] = []
    n_context = options.n_context or min(n_trained if n_trained > 0 else DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    if 0 < n_trained < n_context:  # a damaged file may say anything
        if options.cap_context:
            n_context = n_trained
        else:
            notices.append(f"-c {n_context} is more than the {n_trained} positions that the model was trained on: text beyond may suffer")
    n_cells = options.n_cells or n_context * options.n_sequences
    if n_cells >= 2**31:
        raise ConfigError(f"a context of {n_context} for {options.n_sequences} sequences is more than llama.cpp can count", "lower -c")
    return _Window(min(n_context, n_cells), n_cells, notices)


def _make_context(lib: Library, handle: ModelHandle, path: Path, options: LlamaOptions, window: _Window) -> ContextHandle:
    n_threads = options.threads or usable_cpus()
    fields = {
        "n_ctx": window.n_cells,
        "n_batch": options.max_rows,
        "n_ubatch": options.max_rows,
        "n_seq_max": options.n_sequences,
        "n_threads": n_threads,
        "n_threads_batch": n_threads,
        "flash_attn_type": FLASH_ATTENTION[options.flash_attention],
        "type_k": CACHE_TYPE_IDS[options.cache_type_k],
        "type_v": CACHE_TYPE_IDS[options.cache_type_v],
        "offload_kqv": options.kv_offload,
        "kv_unified": True,  # see KvCache
        "swa_full": True,  # a rollback needs the positions that a small sliding-window cache forgets
        "no_perf": True,
    }
    lib.log.clear()
    context = _interruptibly(lambda: lib.new_context(handle, fields), Event(), lambda made: _undo(made, lib.free_context))
    if context is None:
        raise context_error(path.name, lib.log.reason())
    return context


def _probe(lib: Library, handle: ModelHandle, context: ContextHandle, memory: MemoryHandle, batch: Batch) -> Literal["truncate", "none"]:
    """Whether a tail can be dropped: by trying, because no flag in the file says so. Leaves the cache empty."""
    batch.clear()
    batch.add(0, (0, 0), 0, 1)
    lib.log.clear()
    code = lib.decode(context, batch.struct)
    if code:
        raise pass_error(code, lib.log.reason())
    lib.synchronize(context)
    can_drop = lib.remove_cells(memory, 0, 1)
    if not lib.remove_cells(memory, 0, 0):
        raise EngineError("llama.cpp could not empty its cache after the probe")
    return "truncate" if can_drop and not lib.is_recurrent(handle) else "none"
