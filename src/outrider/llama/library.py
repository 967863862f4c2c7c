# ruff: noqa: ANN401  # the package's objects have no types of their own, and this file is where that ends
"""llama-cpp-python, imported lazily and in this file only: a typed front for the functions that the adapter calls.

Everything untyped stays here. Handles are addresses; 0 never occurs, because every function that can return NULL returns None.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final, NewType

from outrider.errors import EXIT_CODES, ConfigError, EngineError
from outrider.llama.log import LogCapture

ModelHandle = NewType("ModelHandle", int)
ContextHandle = NewType("ContextHandle", int)
MemoryHandle = NewType("MemoryHandle", int)
VocabHandle = NewType("VocabHandle", int)
DeviceHandle = NewType("DeviceHandle", int)

INSTALL_HINT: Final = "in a clone: .venv/bin/python scripts/install.py --llama; elsewhere: pip install llama-cpp-python"
"""How to get llama-cpp-python."""

_BUILD_PATH = re.compile(r"^.*[/\\](?=[^/\\]+:\d+: )")  # of the machine that built the library

_SPECIAL_ATTRIBUTES: Final = (1 << 0) | (1 << 3)  # LLAMA_TOKEN_ATTR_UNKNOWN, LLAMA_TOKEN_ATTR_CONTROL
_SPINS: Final = 10_000  # some tens of microseconds
_lock = Lock()
_loaded: Library | None = None


def library() -> Library:
    """The loaded library; imports it, silences its log and starts its backends on the first call. Thread-safe.

    Raises:
        ConfigError: the package is missing, too old, or its shared library cannot be loaded here.
    """
    global _loaded  # noqa: PLW0603  # one native library per process is the point
    with _lock:
        if _loaded is None:
            _loaded = Library(_import())
        return _loaded


def _import() -> Any:
    # On a C++ exception ggml would attach a debugger to the process and print pages of stack.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    # Its threads meet hundreds of times a pass, and libgomp lets them spin there for milliseconds: beside any other busy program
    # a pass took up to 20 times as long. docs/decisions/0006 has the numbers.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(_SPINS))
    try:
        return importlib.import_module("llama_cpp.llama_cpp")
    except ModuleNotFoundError as error:
        missing = error.name or "llama_cpp"
        raise ConfigError(f"the llama backend needs the Python package {missing!r}, which is not installed", INSTALL_HINT) from None
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError is what the package makes of a dlopen failure
        reason = " ".join(str(error).split())
        raise ConfigError(f"llama-cpp-python cannot be loaded: {reason}", "reinstall it, built for this machine") from None


class Library:
    """The native functions, typed. One instance per process; see `library`.

    Args:
        api: the module `llama_cpp.llama_cpp`.

    Attributes:
        api: that module; tests replace functions in it to inject failures.
        log: what llama.cpp said.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        self.log = LogCapture()
        # ctypes keeps no reference to what C will call, so these live as long as the process.
        self._log_callback = api.llama_log_callback(lambda level, text, _: self.log.write(level, text or b""))
        api.llama_log_set(self._log_callback, None)
        # A callback that outlives the interpreter crashes it, and C++ destructors may log after Python is gone.
        atexit.register(api.llama_log_set, api.llama_log_callback(), None)
        self._last_words = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_last_words)
        self.ggml("ggml_set_abort_callback", [type(self._last_words)], ctypes.c_void_p)(self._last_words)
        api.llama_backend_init()

    def ggml(self, name: str, argtypes: list[Any], restype: Any) -> Callable[..., Any]:
        """A function of ggml, which the package loads but does not wrap.

        Raises EngineError if this build doesn't export it.
        """
        directory = Path(self.api.__file__).parent / "lib"
        candidates = [self.api._lib]  # noqa: SLF001  # the package exports no other way to its own library
        candidates += [
            ctypes.CDLL(str(path)) for stem in ("ggml", "ggml-base") for path in sorted(directory.glob(f"*{stem}.*")) if _is_shared(path)
        ]
        for candidate in candidates:
            try:
                found = candidate[name]  # a new function object, so that its types are ours alone
            except AttributeError:
                continue
            found.argtypes = argtypes
            found.restype = restype
            return found  # type: ignore[no-any-return]
        raise EngineError(f"this build of llama-cpp-python does not export {name}", INSTALL_HINT)

    # ---- model and context ---------------------------------------------------------------------------------------------

    def load_model(self, path: Path, fields: Mapping[str, object]) -> ModelHandle | None:
        """Load a file with these `llama_model_params`, None on failure; the log says why."""
        params = _filled(self.api.llama_model_default_params(), fields)
        handle = self.api.llama_model_load_from_file(os.fsencode(path), params)
        return ModelHandle(handle) if handle else None

    def new_context(self, model: ModelHandle, fields: Mapping[str, object]) -> ContextHandle | None:
        """Make a context with these `llama_context_params`, None on failure; the log says why."""
        params = _filled(self.api.llama_context_default_params(), fields)
        handle = self.api.llama_init_from_model(model, params)
        return ContextHandle(handle) if handle else None

    def free_model(self, model: ModelHandle) -> None:
        """Free weights and vocabulary. Contexts must be freed before."""
        self.api.llama_model_free(model)

    def free_context(self, context: ContextHandle) -> None:
        """Free KV cache and buffers."""
        self.api.llama_free(context)

    def metadata(self, model: ModelHandle, key: str) -> str | None:
        """A scalar of the file's metadata as text, or None if there is none of that name."""
        size = 256
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = int(self.api.llama_model_meta_val_str(model, key.encode(), buffer, size))
            if length < 0:
                return None
            if length < size:
                return buffer.value.decode("utf-8", errors="replace")
            size = length + 1

    def training_context(self, model: ModelHandle) -> int:
        """Positions that the model was trained with; 0 if the file doesn't say."""
        return int(self.api.llama_model_n_ctx_train(model))

    def sliding_window(self, model: ModelHandle) -> int:
        """Positions that a sliding-window layer sees, 0 without such layers."""
        return int(self.api.llama_model_n_swa(model))

    def is_recurrent(self, model: ModelHandle) -> bool:
        """Whether any layer keeps a recurrent state instead of a KV cache."""
        return bool(self.api.llama_model_is_recurrent(model)) or bool(self.api.llama_model_is_hybrid(model))

    def is_decoder(self, model: ModelHandle) -> bool:
        """Whether the model generates text left to right, without an encoder."""
        api = self.api
        other = api.llama_model_has_encoder(model) or api.llama_model_is_diffusion(model)
        return bool(api.llama_model_has_decoder(model)) and not other

    def context_size(self, context: ContextHandle) -> int:
        """KV cells that llama.cpp really made."""
        return int(self.api.llama_n_ctx(context))

    def batch_size(self, context: ContextHandle) -> int:
        """Rows of the largest pass that llama.cpp accepts; more would end the process."""
        return int(min(self.api.llama_n_batch(context), self.api.llama_n_ubatch(context)))

    def max_sequences(self) -> int:
        """Sequences that a context can be made for."""
        return int(self.api.llama_max_parallel_sequences())

    # ---- passes --------------------------------------------------------------------------------------------------------

    def new_batch(self) -> Any:
        """An empty `llama_batch` for arrays of ours: no embeddings, no rows."""
        return self.api.llama_batch()

    def decode(self, context: ContextHandle, batch: Any) -> int:
        """Run one batch; llama_decode's return code."""
        return int(self.api.llama_decode(context, batch))

    def synchronize(self, context: ContextHandle) -> None:
        """Wait until a device has finished."""
        self.api.llama_synchronize(context)

    def logits_address(self, context: ContextHandle, row: int) -> int | None:
        """Address of the float32 logits of one batch row; waits for the pass. None if it has none."""
        pointer = self.api.llama_get_logits_ith(context, row)
        return ctypes.addressof(pointer.contents) if pointer else None

    def abort_callback(self, function: Callable[[Any], bool]) -> Any:
        """Wrap a function for `set_abort`; whoever holds the result keeps it alive for C."""
        return self.api.ggml_abort_callback(function)

    def set_abort(self, context: ContextHandle, callback: Any | None) -> None:
        """Ask `callback` after every graph node on the CPU whether to stop; None never stops."""
        self.api.llama_set_abort_callback(context, callback or self.api.ggml_abort_callback(), None)

    # ---- KV cache ------------------------------------------------------------------------------------------------------

    def memory(self, context: ContextHandle) -> MemoryHandle | None:
        """The context's KV cache, None for models without one."""
        handle = self.api.llama_get_memory(context)
        return MemoryHandle(handle) if handle else None

    def remove_cells(self, memory: MemoryHandle, sequence: int, start: int) -> bool:
        """Drop positions from `start` on. False if the cache cannot drop a part; dropping from 0 always succeeds."""
        return bool(self.api.llama_memory_seq_rm(memory, sequence, start or -1, -1))

    def share_cells(self, memory: MemoryHandle, source: int, target: int, length: int) -> None:
        """Let `target` see the first `length` positions of `source`."""
        self.api.llama_memory_seq_cp(memory, source, target, 0, length)

    def first_position(self, memory: MemoryHandle, sequence: int) -> int:
        """The smallest position that is still present in every layer, -1 for an empty sequence."""
        return int(self.api.llama_memory_seq_pos_min(memory, sequence))

    # ---- vocabulary ----------------------------------------------------------------------------------------------------

    def vocabulary(self, model: ModelHandle) -> VocabHandle | None:
        """The model's vocabulary, which lives as long as the model."""
        handle = self.api.llama_model_get_vocab(model)
        return VocabHandle(handle) if handle else None

    def vocabulary_type(self, vocab: VocabHandle) -> int:
        """A LLAMA_VOCAB_TYPE; 0 means that the file has no tokenizer."""
        return int(self.api.llama_vocab_type(vocab))

    def n_tokens(self, vocab: VocabHandle) -> int:
        """Entries of the vocabulary, padding included."""
        return int(self.api.llama_vocab_n_tokens(vocab))

    def text(self, vocab: VocabHandle, token: int) -> bytes:
        """A token as the file writes it."""
        return bytes(self.api.llama_vocab_get_text(vocab, token) or b"")

    def is_end(self, vocab: VocabHandle, token: int) -> bool:
        """Whether a token ends a generation."""
        return bool(self.api.llama_vocab_is_eog(vocab, token))

    def is_special(self, vocab: VocabHandle, token: int) -> bool:
        """Whether a token is a control token, or the one for the unknown."""
        return bool(self.api.llama_vocab_get_attr(vocab, token) & _SPECIAL_ATTRIBUTES)

    def bos_token(self, vocab: VocabHandle) -> int | None:
        """The beginning-of-text token if the file wants it in front of a text, else None."""
        token = int(self.api.llama_vocab_bos(vocab))
        return token if token >= 0 and self.api.llama_vocab_get_add_bos(vocab) else None

    def tokenize(self, vocab: VocabHandle, text: bytes, buffer: Any, parse_special: bool) -> int:
        """Tokens of UTF-8 text into an int32 buffer: their number, or minus the number that would be needed."""
        return int(self.api.llama_tokenize(vocab, text, len(text), buffer, len(buffer), False, parse_special))

    def piece(self, vocab: VocabHandle, token: int, buffer: ctypes.Array[ctypes.c_char]) -> int:
        """Bytes of a token into a buffer, nothing for control tokens: their number, or minus the number that would be needed."""
        return int(self.api.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False))


def _filled(params: Any, fields: Mapping[str, object]) -> Any:
    """Set fields of a native struct. ctypes would accept a name that the struct doesn't have, and the option would be silently off."""
    known = {name for name, *_ in params._fields_}
    for name, value in fields.items():
        if name not in known:
            raise ConfigError(f"this llama-cpp-python does not know {name}", INSTALL_HINT)
        setattr(params, name, value)
    return params


def _is_shared(path: Path) -> bool:
    return path.suffix in (".so", ".dylib", ".dll")


def _last_words(message: bytes) -> None:
    """A failed check inside ggml ends the process, whatever we do; at least it says so in our words and with our exit code."""
    text = _BUILD_PATH.sub("", message.decode("utf-8", errors="replace")) if message else "no reason given"
    sys.stderr.write(f"error: llama.cpp stopped at an internal check: {text} (please report this with the model's name)\n")
    sys.stderr.flush()
    os._exit(EXIT_CODES[EngineError])
