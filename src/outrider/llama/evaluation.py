"""The logits of one pass, read where llama.cpp left them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Final

import numpy as np
from numpy.typing import NDArray

from outrider.errors import EngineError
from outrider.types import Logits, TokenIds

_BLOCK: Final = 256
"""Neighbouring logits whose maximum is taken first when the best few of a row are wanted."""


class LlamaEvaluation:
    """An `Evaluation` over llama.cpp's own output buffer: nothing is copied until somebody asks for rows that aren't neighbours.

    The buffer belongs to the context. The next pass overwrites or reallocates it and `close` frees it, so every method raises
    EngineError once either has happened; arrays that were handed out before must not be read any more.

    Args:
        address: of the float32 logits of all outputs, one row after the other; None without outputs.
        outputs: for each row of the pass its index among the outputs, -1 where no logits were announced.
        n_vocab: entries of a row.
        is_current: whether the buffer still holds this pass.
    """

    def __init__(self, address: int | None, outputs: NDArray[np.int64], n_vocab: int, is_current: Callable[[], bool]) -> None:
        self._outputs = outputs
        self._is_current = is_current
        n_outputs = int(outputs.max(initial=-1)) + 1
        self._logits: Logits = np.empty((0, n_vocab), dtype=np.float32)
        if address is not None:
            memory = (ctypes.c_float * (n_outputs * n_vocab)).from_address(address)
            self._logits = np.ctypeslib.as_array(memory).reshape(n_outputs, n_vocab)
        self._logits.flags.writeable = False

    def rows(self, nodes: Seq[int]) -> Logits:
        """Float32 [len(nodes), n_vocab], read-only: a view for rising neighbours (any single row, too), else a copy.

        Raises EngineError for a stale evaluation, and for a row without announced logits.
        """
        indices = self._indices(nodes)
        if not indices:
            return self._logits[:0]
        first, n_rows = indices[0], len(indices)
        if indices == list(range(first, first + n_rows)):
            return self._logits[first : first + n_rows]
        copy: Logits = self._logits[indices]
        copy.flags.writeable = False
        return copy

    def argmax(self, nodes: Seq[int]) -> TokenIds:
        """Int64 [len(nodes)]; the lowest id among equals. Raises EngineError for NaN logits."""
        best = np.empty(len(nodes), dtype=np.int64)
        for place, index in enumerate(self._indices(nodes)):
            row = self._logits[index]
            token = int(row.argmax())  # numpy takes the first of equals, and the first NaN before any number
            if row[token] != row[token]:  # NaN is the one value unequal to itself
                raise _nan(nodes[place])
            best[place] = token
        return best

    def top_k(self, nodes: Seq[int], k: int) -> tuple[NDArray[np.int64], Logits]:
        """Ids and logits [len(nodes), k], best first; the lowest id first among equals. Raises EngineError for NaN logits."""
        n_vocab = self._logits.shape[1]
        if not 1 <= k <= n_vocab:
            raise EngineError(f"the best {k} of {n_vocab} tokens were asked for")
        ids = np.empty((len(nodes), k), dtype=np.int64)
        logits = np.empty((len(nodes), k), dtype=np.float32)
        for place, index in enumerate(self._indices(nodes)):
            row = self._logits[index]
            ids[place] = _best(row, k, nodes[place])
            logits[place] = row[ids[place]]
        return ids, logits

    def logsumexp(self, nodes: Seq[int]) -> NDArray[np.float64]:
        """Float64 [len(nodes)]. Raises EngineError for NaN logits.

        Each exp is taken in float32 after the row's maximum was subtracted, and summed in float64: the result is within 1e-6 of
        exact, which is finer than the logits themselves, at a fraction of the time of float64 throughout.
        """
        sums = np.empty(len(nodes), dtype=np.float64)
        for place, index in enumerate(self._indices(nodes)):
            row = self._logits[index]
            peak = row.max()
            if np.isnan(peak):
                raise _nan(nodes[place])
            sums[place] = float(peak) if np.isinf(peak) else float(peak) + np.log(np.exp(row - peak).sum(dtype=np.float64))
        return sums

    def _indices(self, nodes: Seq[int]) -> list[int]:
        if not self._is_current():
            raise EngineError("this evaluation is stale: the model has run another pass, or was closed")
        n_rows = len(self._outputs)
        indices = [int(self._outputs[node]) if 0 <= node < n_rows else -1 for node in nodes]
        if -1 in indices:
            raise EngineError(f"row {nodes[indices.index(-1)]} was not announced as an output")
        return indices


def _best(row: Logits, k: int, node: int) -> NDArray[np.int64]:
    """Ids of the k largest logits, best first, lowest id first among equals, also where the cut falls between equals."""
    if np.isnan(row.max()):
        raise _nan(node)
    candidates = np.flatnonzero(row >= _bound(row, k))  # rising ids
    order = np.argsort(-row[candidates], kind="stable")[:k]
    return candidates[order]


def _bound(row: Logits, k: int) -> np.float32:
    """A value that at least k logits reach, and for small k not many more.

    The k-th largest maximum of disjoint blocks is one: k blocks reach it. A partition of the whole row, which large k need, takes
    ten times as long.
    """
    n_blocks = len(row) // _BLOCK
    values = row if k > n_blocks // 2 else row[: n_blocks * _BLOCK].reshape(n_blocks, _BLOCK).max(axis=1)
    bound: np.float32 = np.partition(values, len(values) - k)[len(values) - k]
    return bound


def _nan(node: int) -> EngineError:
    return EngineError(f"the model's logits of row {node} are not numbers", "the file may be damaged: check it, or try --device none")
