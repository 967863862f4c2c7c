"""Ports of a language model: what the engine and a model drafter need from any backend.

Written for lists of sequences from the start; `outrider run` is a list of one. Token ids only: text is another room.
`outrider.testing.TableModel` is a public fake of these ports that raises on every misuse.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from threading import Event
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from outrider.types import Logits, TokenIds


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a loaded model can do; probed once, when it is loaded.

    Attributes:
        n_vocab: rows of the output head.
        n_context: positions that one sequence can hold.
        max_rows: tokens that one `evaluate` accepts, over all segments together.
        max_sequences: sequences that can be open at a time.
        tree: segments may branch.
        deferred_head: logits are computed when they are asked for, so asking for fewer rows saves time.
        bit_exact: a row's logits don't depend on what else is in the pass.
        rollback: "truncate" if a sequence can drop any tail, "none" if it cannot (recurrent state): no speculation then.
        backend: name of the backend, for reports.
        device: where the weights live, for reports.
        cache_type_k, cache_type_v: how keys and values are cached, for reports; words of `-ctk` and `-ctv`.
    """

    n_vocab: int
    n_context: int
    max_rows: int
    max_sequences: int
    tree: bool
    deferred_head: bool
    bit_exact: bool
    rollback: Literal["truncate", "none"]
    backend: str
    device: str = "cpu"
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"


@runtime_checkable
class Sequence(Protocol):
    """One KV cache line of a model. Owned by whoever opened it; not thread-safe; closed exactly once."""

    @property
    def length(self) -> int:
        """Committed positions."""
        ...

    def reserve(self, n: int) -> bool:
        """Whether `n` more positions can be evaluated now; makes room for them if that needs an allocation."""
        ...

    def fork(self, length: int) -> Sequence:
        """A new sequence that shares the first `length` positions. Raises EngineError where none is free."""
        ...

    def truncate(self, length: int) -> None:
        """Drop every position from `length` on. Raises EngineError if the backend cannot; never returns a flag."""
        ...

    def commit(self, nodes: Seq[int]) -> None:
        """Keep these rows of the last evaluated segment (a path: row 0, then descendants in order) and drop its others.

        After `evaluate` every row of the segment is provisional; `length` counts them only once they are committed.
        """
        ...

    def close(self) -> None:
        """Give the cache line back."""
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows that one sequence contributes to a pass.

    Attributes:
        sequence: where the rows go.
        tokens: token ids, at least one.
        parents: parents[i] < i; -1 is the committed tail; () means a chain.
        n_outputs: how many rows want logits, counted from the end; None means all. Prompt processing asks for 0.
    """

    sequence: Sequence
    tokens: tuple[int, ...]
    parents: tuple[int, ...] = ()
    n_outputs: int | None = None


class Evaluation(Protocol):
    """Logits of one pass; valid until the model's next `evaluate`.

    Rows ("nodes") are numbered through all segments in the order they were given, starting at 0. Asking for a row that
    was not announced by `n_outputs`, or after the next `evaluate`, raises EngineError.
    """

    def rows(self, nodes: Seq[int]) -> Logits:
        """Float32 [len(nodes), n_vocab]. May be a view into the backend's memory: read it, don't keep or write it."""
        ...

    def argmax(self, nodes: Seq[int]) -> TokenIds:
        """Int64 [len(nodes)]; the lowest id among equals. NaN logits raise EngineError."""
        ...

    def top_k(self, nodes: Seq[int], k: int) -> tuple[NDArray[np.int64], Logits]:
        """Ids and logits [len(nodes), k], best first; the lowest id first among equals."""
        ...

    def logsumexp(self, nodes: Seq[int]) -> NDArray[np.float64]:
        """Float64 [len(nodes)]: log of the sum of exp over the row's logits."""
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """A loaded model. One thread at a time, except that `cancel` of a running pass may be set from any thread."""

    @property
    def capabilities(self) -> Capabilities: ...

    def open(self) -> Sequence:
        """An empty sequence. Raises EngineError when all are in use."""
        ...

    def evaluate(self, segments: Seq[Segment], cancel: Event | None = None) -> Evaluation:
        """Run every segment's rows in one pass. Rows stay provisional until `Sequence.commit`.

        A sequence appears at most once; anything provisional from an earlier pass must have been committed or dropped
        (`commit(())` drops all). If it raises, every sequence is as it was before the call.

        Raises:
            CacheFullError: no room for the rows.
            CancelledError: `cancel` was set during the pass.
            OutOfMemoryError: the backend could not allocate.
            EngineError: any other failure of the backend.
        """
        ...

    def close(self) -> None:
        """Free the model. Open sequences become invalid."""
        ...
