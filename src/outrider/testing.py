"""Public fakes: a language model from a table, and a tokenizer of bytes. They run the whole stack in seconds without weights.

Both are strict. `TableModel` raises EngineError on every misuse of the ports in `outrider.model`, so a test that passes on it
has also proved that its caller keeps the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from threading import Event
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from outrider.errors import CacheFullError, CancelledError, EngineError, RequestError
from outrider.model import Capabilities, Segment
from outrider.types import ROOT, Logits, TokenIds, Tokens


def random_table(n_vocab: int, order: int = 2, seed: int = 0, sharpness: float = 2.0) -> Callable[[tuple[int, ...]], Logits]:
    """A fixed random function from the last `order` tokens to logits.

    Args:
        n_vocab: entries of a row.
        order: how many tokens back the row depends on.
        seed: which function; two models with nearby behaviour are made with `blend`.
        sharpness: standard deviation of the logits; large values make one token dominate.
    """

    def table(history: tuple[int, ...]) -> Logits:
        key = [seed, n_vocab, *history[-order:]] if order else [seed, n_vocab]
        row: Logits = (np.random.default_rng(key).standard_normal(n_vocab) * sharpness).astype(np.float32)
        return row

    return table


def blend(
    first: Callable[[tuple[int, ...]], Logits], second: Callable[[tuple[int, ...]], Logits], share: float
) -> Callable[[tuple[int, ...]], Logits]:
    """(1 - share) · first + share · second: a draft model that is right more or less often."""

    def table(history: tuple[int, ...]) -> Logits:
        row: Logits = ((1 - share) * first(history) + share * second(history)).astype(np.float32)
        return row

    return table


class TableModel:
    """A `LanguageModel` whose logits are a function of the token history.

    Args:
        table: history (all tokens so far, the row's own last) to a row of logits, float32 [n_vocab].
        n_vocab: entries of a row.
        n_context, max_rows, max_sequences, tree, deferred_head, rollback: as in `Capabilities`.
        n_cells: KV cells shared by all sequences; None means enough for all.

    Attributes:
        passes: rows per segment of every `evaluate`, in order.
        outputs: rows whose logits were asked for, per `evaluate`; shows what a deferred head would have computed.
        failures: pass number (from 0) to the exception that this pass raises instead of running.
    """

    def __init__(  # noqa: PLR0913  # each is a capability that a test may want to change
        self,
        table: Callable[[tuple[int, ...]], Logits],
        n_vocab: int,
        *,
        n_context: int = 256,
        max_rows: int = 64,
        max_sequences: int = 8,
        tree: bool = True,
        deferred_head: bool = True,
        rollback: Literal["truncate", "none"] = "truncate",
        n_cells: int | None = None,
    ) -> None:
        self._capabilities = Capabilities(
            n_vocab=n_vocab,
            n_context=n_context,
            max_rows=max_rows,
            max_sequences=max_sequences,
            tree=tree,
            deferred_head=deferred_head,
            bit_exact=True,
            rollback=rollback,
            backend="table",
        )
        self.table = table
        self.n_cells = n_context * max_sequences if n_cells is None else n_cells
        self.open_sequences: list[TableSequence] = []
        self.passes: list[list[int]] = []
        self.outputs: list[list[int]] = []
        self.failures: dict[int, Exception] = {}
        self.is_closed = False

    @property
    def capabilities(self) -> Capabilities:
        """What the constructor was told."""
        return self._capabilities

    def with_capabilities(self, **changes: object) -> TableModel:
        """Change capabilities in place, for tests of odd models; returns self."""
        self._capabilities = replace(self._capabilities, **changes)  # type: ignore[arg-type]
        return self

    def open(self) -> TableSequence:
        """An empty sequence."""
        self._check_open()
        if len(self.open_sequences) >= self._capabilities.max_sequences:
            raise EngineError("all sequences are in use", "close one first")
        sequence = TableSequence(self)
        self.open_sequences.append(sequence)
        return sequence

    def evaluate(self, segments: Seq[Segment], cancel: Event | None = None) -> TableEvaluation:
        """Look every row up."""
        self._check_open()
        number = len(self.passes)
        self._check(segments)
        self.passes.append([len(segment.tokens) for segment in segments])
        self.outputs.append([])
        if number in self.failures:
            raise self.failures[number]
        if cancel is not None and cancel.is_set():
            raise CancelledError("the pass was cancelled")
        histories: list[tuple[int, ...] | None] = []
        for segment in segments:
            histories += _own(segment.sequence, self).extend(segment)
        return TableEvaluation(self, number, histories)

    def close(self) -> None:
        """Forbid everything from now on."""
        self._check_open()
        self.is_closed = True

    def free_cells(self) -> int:
        """KV cells that no sequence uses."""
        return self.n_cells - sum(len(sequence.tokens) for sequence in self.open_sequences)

    def _check_open(self) -> None:
        if self.is_closed:
            raise EngineError("the model is closed")

    def _check(self, segments: Seq[Segment]) -> None:
        n_rows = sum(len(segment.tokens) for segment in segments)
        if not segments or not n_rows:
            raise EngineError("a pass needs at least one row")
        if n_rows > self._capabilities.max_rows:
            raise EngineError(f"{n_rows} rows are more than the {self._capabilities.max_rows} that fit one pass")
        if len({id(segment.sequence) for segment in segments}) != len(segments):
            raise EngineError("a sequence appears twice in a pass")
        for segment in segments:
            _check_segment(segment, _own(segment.sequence, self), self._capabilities)
        if n_rows > self.free_cells():
            raise CacheFullError(f"{n_rows} rows don't fit the {self.free_cells()} free cells")


def _own(sequence: object, model: TableModel) -> TableSequence:
    if not isinstance(sequence, TableSequence) or sequence.model is not model:
        raise EngineError("the sequence belongs to another model")
    return sequence


def _check_segment(segment: Segment, sequence: TableSequence, capabilities: Capabilities) -> None:
    sequence.check_open()
    n_rows = len(segment.tokens)
    if not n_rows:
        raise EngineError("a segment has no rows")
    if sequence.provisional is not None:
        raise EngineError("the sequence has rows of an earlier pass that were neither committed nor dropped")
    if segment.parents and len(segment.parents) != n_rows:
        raise EngineError("a segment has as many parents as tokens, or none")
    if any(not ROOT <= parent < row for row, parent in enumerate(segment.parents)):
        raise EngineError("a segment's parents come before their children")
    if segment.parents and not capabilities.tree and segment.parents != tuple(range(-1, n_rows - 1)):
        raise EngineError("this model takes chains only")
    if any(not 0 <= token < capabilities.n_vocab for token in segment.tokens):
        raise EngineError(f"a token id of {segment.tokens} is outside the vocabulary of {capabilities.n_vocab}")
    if segment.n_outputs is not None and not 0 <= segment.n_outputs <= n_rows:
        raise EngineError("a segment announces more outputs than it has rows")
    depth = max(map(len, sequence.paths(segment)))
    if sequence.length + depth > capabilities.n_context:
        raise CacheFullError(f"position {sequence.length + depth} is beyond the context of {capabilities.n_context}")


class TableSequence:
    """A `Sequence` of a TableModel: the list of its tokens.

    Attributes:
        model: its owner.
        tokens: committed tokens.
        provisional: rows of the last pass, as (token, path of rows from the tail), until they are committed; else None.
    """

    def __init__(self, model: TableModel, tokens: Tokens | None = None) -> None:
        self.model = model
        self.tokens: Tokens = list(tokens or [])
        self.provisional: list[tuple[int, list[int]]] | None = None
        self.is_closed = False

    @property
    def length(self) -> int:
        """Committed positions."""
        self.check_open()
        return len(self.tokens)

    def reserve(self, n: int) -> bool:
        """Whether context and cells have room for `n` more."""
        self.check_open()
        return len(self.tokens) + n <= self.model.capabilities.n_context and n <= self.model.free_cells()

    def fork(self, length: int) -> TableSequence:
        """A sequence with the first `length` tokens."""
        self._check_settled()
        if not 0 <= length <= len(self.tokens):
            raise EngineError(f"cannot fork at {length} of {len(self.tokens)} positions")
        copy = self.model.open()
        copy.tokens = self.tokens[:length]
        return copy

    def truncate(self, length: int) -> None:
        """Drop tokens from `length` on."""
        self._check_settled()
        if not 0 <= length <= len(self.tokens):
            raise EngineError(f"cannot truncate {len(self.tokens)} positions to {length}")
        if length < len(self.tokens) and self.model.capabilities.rollback == "none":
            raise EngineError("this model cannot drop positions")
        del self.tokens[length:]

    def commit(self, nodes: Seq[int]) -> None:
        """Keep a path of the last segment's rows."""
        self.check_open()
        if self.provisional is None:
            raise EngineError("there are no provisional rows to commit")
        kept = list(nodes)
        if kept and (not all(0 <= node < len(self.provisional) for node in kept) or self.provisional[kept[-1]][1] != kept):
            raise EngineError(f"rows {kept} are not a path from the tail")
        if len(kept) < len(self.provisional) and self.model.capabilities.rollback == "none":
            raise EngineError("this model cannot drop rows")
        self.tokens += [self.provisional[node][0] for node in kept]
        self.provisional = None

    def close(self) -> None:
        """Give the cells back."""
        self.check_open()
        self.is_closed = True
        self.model.open_sequences.remove(self)

    def check_open(self) -> None:
        """Raise EngineError after `close`."""
        if self.is_closed:
            raise EngineError("the sequence is closed")

    def paths(self, segment: Segment) -> list[list[int]]:
        """For each row, the rows from the tail down to it, inclusive."""
        parents = segment.parents or tuple(range(-1, len(segment.tokens) - 1))
        paths: list[list[int]] = []
        for row, parent in enumerate(parents):
            paths.append([row] if parent == ROOT else [*paths[parent], row])
        return paths

    def extend(self, segment: Segment) -> list[tuple[int, ...] | None]:
        """Take the rows in; the history of each row, or None where no logits were announced."""
        paths = self.paths(segment)
        self.provisional = list(zip(segment.tokens, paths, strict=True))
        n_rows = len(segment.tokens)
        n_outputs = n_rows if segment.n_outputs is None else segment.n_outputs
        return [
            tuple(self.tokens + [segment.tokens[node] for node in path]) if row >= n_rows - n_outputs else None
            for row, path in enumerate(paths)
        ]

    def _check_settled(self) -> None:
        self.check_open()
        if self.provisional is not None:
            raise EngineError("commit or drop the provisional rows first")


class TableEvaluation:
    """An `Evaluation` that looks rows up when they are asked for and refuses to answer once it is stale."""

    def __init__(self, model: TableModel, number: int, histories: list[tuple[int, ...] | None]) -> None:
        self._model = model
        self._number = number
        self._histories = histories

    def rows(self, nodes: Seq[int]) -> Logits:
        """Float32 [len(nodes), n_vocab]; read-only, like a view into a backend's memory."""
        if self._number != len(self._model.passes) - 1:
            raise EngineError("this evaluation is stale: the model has run another pass")
        found = []
        for node in nodes:
            history = self._histories[node] if 0 <= node < len(self._histories) else None
            if history is None:
                raise EngineError(f"row {node} was not announced as an output")
            self._model.outputs[-1].append(node)
            found.append(self._model.table(history))
        logits = np.array(found, dtype=np.float32)
        logits.flags.writeable = False
        return logits

    def argmax(self, nodes: Seq[int]) -> TokenIds:
        """Int64 [len(nodes)]."""
        logits = self.rows(nodes)
        if np.isnan(logits).any():
            raise EngineError("the model produced logits that are not numbers", "the file is damaged or its scales are not finite")
        best: TokenIds = logits.argmax(axis=1).astype(np.int64)
        return best

    def top_k(self, nodes: Seq[int], k: int) -> tuple[NDArray[np.int64], Logits]:
        """Ids and logits [len(nodes), k], best first."""
        logits = self.rows(nodes)
        ids = np.argsort(-logits, axis=1, kind="stable")[:, :k].astype(np.int64)
        return ids, np.take_along_axis(logits, ids, axis=1)

    def logsumexp(self, nodes: Seq[int]) -> NDArray[np.float64]:
        """Float64 [len(nodes)]."""
        logits = self.rows(nodes).astype(np.float64)
        peak = logits.max(axis=1)
        total: NDArray[np.float64] = peak + np.log(np.exp(logits - peak[:, None]).sum(axis=1))
        return total


N_BYTES: Final = 256


class ByteTokenizer:
    """A `Tokenizer` whose ids 0..255 are bytes; further ids are special tokens.

    Args:
        specials: texts of the special tokens, ids from 256 on.
        end: which of them end a generation.
    """

    def __init__(self, specials: Seq[str] = ("<|end|>",), end: Seq[str] = ("<|end|>",)) -> None:
        self.specials = list(specials)
        self._end = frozenset(N_BYTES + self.specials.index(text) for text in end)

    @property
    def n_vocab(self) -> int:
        """256 bytes and the special tokens."""
        return N_BYTES + len(self.specials)

    @property
    def end_tokens(self) -> frozenset[int]:
        """Ids of the special tokens that end a generation."""
        return self._end

    @property
    def special_texts(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self.specials)

    def encode(self, text: str, *, parse_special: bool, add_bos: bool) -> Tokens:
        """UTF-8 bytes; special tokens where `parse_special` allows them. There is no beginning-of-text token."""
        tokens: Tokens = []
        rest = text
        while rest:
            special = next((s for s in self.specials if parse_special and rest.startswith(s)), None)
            if special is not None:
                tokens.append(N_BYTES + self.specials.index(special))
                rest = rest[len(special) :]
                continue
            try:
                tokens += rest[0].encode()
            except UnicodeEncodeError as error:
                raise RequestError("the text has a lone surrogate", "send valid Unicode") from error
            rest = rest[1:]
        return tokens

    def piece(self, token: int) -> bytes:
        """The byte, or nothing for a special token."""
        if not 0 <= token < self.n_vocab:
            raise EngineError(f"token {token} is outside the vocabulary of {self.n_vocab}")
        return bytes([token]) if token < N_BYTES else b""
