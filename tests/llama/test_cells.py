"""The cell ledger against a set per line."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outrider.errors import CacheFullError
from outrider.llama.cells import CellLedger

N_CELLS, N_LINES = 12, 4


class Ledger(RuleBasedStateMachine):
    """Every line is a list of names; a fork shares names. What is free follows from counting names."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = CellLedger(N_CELLS)
        self.lines: list[list[int]] = [[] for _ in range(N_LINES)]
        self.n_named = 0

    @property
    def free(self) -> int:
        return N_CELLS - len({name for line in self.lines for name in line})

    @rule(line=st.integers(0, N_LINES - 1), n=st.integers(0, N_CELLS))
    def extend(self, line: int, n: int) -> None:
        if n > self.free:
            with pytest.raises(CacheFullError):
                self.ledger.extend(line, n)
            return
        self.ledger.extend(line, n)
        self.lines[line] += range(self.n_named, self.n_named + n)
        self.n_named += n

    @rule(line=st.integers(0, N_LINES - 1), length=st.integers(0, N_CELLS))
    def cut(self, line: int, length: int) -> None:
        self.ledger.cut(line, length)
        del self.lines[line][length:]

    @precondition(lambda self: any(not line for line in self.lines))
    @rule(source=st.integers(0, N_LINES - 1), length=st.integers(0, N_CELLS))
    def share(self, source: int, length: int) -> None:
        target = next(index for index, line in enumerate(self.lines) if not line)
        if target != source:
            self.ledger.share(source, target, length)
            self.lines[target] = self.lines[source][:length]

    @invariant()
    def free_is_exact(self) -> None:
        assert self.ledger.free == self.free


TestLedger = Ledger.TestCase
TestLedger.settings = settings(max_examples=40, stateful_step_count=30)
