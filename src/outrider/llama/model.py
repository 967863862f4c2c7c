"""A language model that llama.cpp runs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np

from outrider.errors import CacheFullError, CancelledError, EngineError
from outrider.exclusive import Exclusive
from outrider.llama.batch import Batch
from outrider.llama.cache import KvCache
from outrider.llama.callback import CancelWatch, GuardedCall
from outrider.llama.evaluation import LlamaEvaluation
from outrider.llama.failures import pass_error
from outrider.llama.library import ContextHandle, Library, ModelHandle
from outrider.llama.sequence import LlamaSequence
from outrider.llama.tokenizer import LlamaTokenizer
from outrider.model import Capabilities, Segment

_FLOAT_BYTES = 4
_UNTOUCHED = (1, -1)  # llama_decode's codes after which llama.cpp has restored its cache itself


@dataclass(frozen=True, slots=True)
class Native:
    """What a model is made of below Python."""

    lib: Library
    model: ModelHandle
    context: ContextHandle
    cache: KvCache
    batch: Batch


@dataclass(frozen=True, slots=True)
class _Chain:
    """A checked segment."""

    sequence: LlamaSequence
    tokens: tuple[int, ...]
    n_outputs: int


class LlamaModel:
    """A `LanguageModel` over one llama.cpp model and context; made by `load`.

    One thread at a time: a second one inside `evaluate` or `close` gets an EngineError instead of a race. A target and a draft model
    may run on different threads, each with its own thread pool. `tokenizer` is safe from any thread.

    llama.cpp's kernels depend on the width of a pass, so a row's logits differ in their last digits with what else is in it
    (`bit_exact` is False). Its own worker threads are as many as the options say, for narrow and wide passes alike.

    Args:
        native: the parts; owned from here on.
        capabilities: as probed.
        tokenizer: of this model.
        notices: what was asked for and doesn't happen, one line each.

    Attributes:
        notices: the same; for the caller to show.
    """

    def __init__(self, native: Native, capabilities: Capabilities, tokenizer: LlamaTokenizer, notices: list[str]) -> None:
        self._native = native
        self._capabilities = capabilities
        self._tokenizer = tokenizer
        self.notices = list(notices)
        self._busy = Exclusive()
        self._generation = 0
        self._watch = CancelWatch()
        self._abort = GuardedCall(self._watch.is_set, on_error=True)
        self._abort_callback: Any = native.lib.abort_callback(self._abort.enter)
        self._abort_is_set = False
        self._sequences: weakref.WeakSet[LlamaSequence] = weakref.WeakSet()
        self._free = weakref.finalize(self, _free, native.lib, native.context, native.model)
        self._free.atexit = False  # a daemon thread may still be inside a pass then; the system takes the memory back anyway

    @property
    def capabilities(self) -> Capabilities:
        """What this model can do."""
        return self._capabilities

    @property
    def tokenizer(self) -> LlamaTokenizer:
        """The file's own vocabulary."""
        return self._tokenizer

    def open(self) -> LlamaSequence:
        """An empty sequence. Raises EngineError when all are in use, or after `close`."""
        self._check_open()
        return LlamaSequence(
            self._native.cache,
            self._capabilities.n_context,
            can_rewind=self._capabilities.rollback == "truncate",
            register=self._sequences.add,
        )

    def evaluate(self, segments: Seq[Segment], cancel: Event | None = None) -> LlamaEvaluation:
        """Run every segment's rows in one pass; see the port. Chains only.

        Args:
            segments: at most one per sequence; `capabilities.max_rows` rows over all of them.
            cancel: looked at before the pass and, on the CPU, after every graph node of it. Without one, Ctrl-C waits for the
                end of the pass.

        Raises:
            CacheFullError, CancelledError, OutOfMemoryError, EngineError: as in the port. Every sequence is as it was before,
                except that a model which cannot be rewound loses those that it had begun to read.
        """
        with self._busy.held("one thread at a time"):
            self._check_open()
            chains = self._checked(segments)
            if cancel is not None and cancel.is_set():
                raise CancelledError("the pass was cancelled before it began")
            return self._run(chains, cancel)

    def close(self) -> None:
        """Free the model now. Its sequences, evaluations and tokenizer raise from here on; arrays of logits must not be read."""
        with self._busy.held("cancel it and wait before closing"):
            self._check_open()
            self._generation += 1
            self._tokenizer.close()
            for sequence in tuple(self._sequences):
                sequence.model_closed()
            self._free()

    def _check_open(self) -> None:
        if not self._free.alive:
            raise EngineError("the model is closed")

    def _checked(self, segments: Seq[Segment]) -> list[_Chain]:
        chains = [self._chain(segment) for segment in segments]
        if not chains:
            raise EngineError("a pass needs at least one row")
        if len({chain.sequence.line for chain in chains}) != len(chains):
            raise EngineError("a sequence appears twice in a pass")
        n_rows = sum(len(chain.tokens) for chain in chains)
        if n_rows > self._capabilities.max_rows:
            raise EngineError(f"{n_rows} rows are more than the {self._capabilities.max_rows} that fit one pass")
        if not all([chain.sequence.check_room(len(chain.tokens)) for chain in chains]):  # noqa: C419  # each one checks for misuse too
            raise CacheFullError(f"the context of {self._capabilities.n_context} positions is full", "raise -c")
        if n_rows > self._native.cache.free:
            raise CacheFullError(f"{n_rows} rows don't fit {self._native.cache.free} free KV cache cells", "close a sequence, or raise -c")
        return chains

    def _chain(self, segment: Segment) -> _Chain:
        sequence, tokens = segment.sequence, segment.tokens
        if not isinstance(sequence, LlamaSequence) or not sequence.belongs_to(self._native.cache):
            raise EngineError("the sequence belongs to another model")
        n_rows = len(tokens)
        if not n_rows:
            raise EngineError("a segment has no rows")
        if segment.parents and tuple(segment.parents) != tuple(range(-1, n_rows - 1)):
            raise EngineError("llama.cpp takes chains only, and this segment branches", "draft chains, or use a backend with trees")
        if not 0 <= min(tokens) <= max(tokens) < self._capabilities.n_vocab:
            raise EngineError(f"token ids {min(tokens)} to {max(tokens)} are not all in the vocabulary of {self._capabilities.n_vocab}")
        n_outputs = n_rows if segment.n_outputs is None else segment.n_outputs
        if not 0 <= n_outputs <= n_rows:
            raise EngineError(f"{n_outputs} outputs were announced for {n_rows} rows")
        return _Chain(sequence, tokens, n_outputs)

    def _run(self, chains: list[_Chain], cancel: Event | None) -> LlamaEvaluation:
        self._generation += 1  # whatever happens, the old logits are gone
        batch = self._native.batch
        batch.clear()
        for chain in chains:
            batch.add(chain.sequence.line, chain.tokens, chain.sequence.length, chain.n_outputs)
        code = 0
        try:
            code = self._decode(cancel)
            evaluation = self._read(code)
            for chain in chains:
                chain.sequence.extended(len(chain.tokens))
        except BaseException:
            for chain in chains:
                chain.sequence.restore(touched=code not in _UNTOUCHED)
            raise
        return evaluation

    def _decode(self, cancel: Event | None) -> int:
        """The native call. Raises what a signal handler raised while it ran."""
        lib, context = self._native.lib, self._native.context
        self._watch.event = cancel
        if (cancel is not None) != self._abort_is_set:  # the callback costs about 0.2 microseconds per graph node
            self._abort_is_set = cancel is not None
            lib.set_abort(context, self._abort_callback if cancel is not None else None)
        lib.log.clear()
        code = lib.decode(context, self._native.batch.struct)
        self._watch.event = None
        if (error := self._abort.take_error()) is not None:
            raise error
        return code

    def _read(self, code: int) -> LlamaEvaluation:
        """Find the logits of the pass that has just ended with `code`; waits for the device."""
        lib, context, batch = self._native.lib, self._native.context, self._native.batch
        if code:
            raise pass_error(code, lib.log.reason())
        outputs = batch.output_indices()
        announced = np.flatnonzero(outputs >= 0)
        n_vocab = self._capabilities.n_vocab
        address: int | None = None
        if len(announced):
            address = lib.logits_address(context, int(announced[0]))
            last = lib.logits_address(context, int(announced[-1]))
            if address is None or last != address + (len(announced) - 1) * n_vocab * _FLOAT_BYTES:
                raise EngineError(f"llama.cpp did not hand out the logits of a pass: {lib.log.reason()}")
        else:
            lib.synchronize(context)
        generation = self._generation
        return LlamaEvaluation(address, outputs, n_vocab, lambda: self._generation == generation)


def _free(lib: Library, context: ContextHandle, model: ModelHandle) -> None:
    lib.free_context(context)
    lib.free_model(model)
