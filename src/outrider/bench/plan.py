"""What a verify curve is measured over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from outrider.errors import ConfigError

MAX_ROWS: Final = 4096
"""Rows of the largest pass that may be asked for."""

FILL_ROWS: Final = 512
"""Rows of a pass that fills the cache up to the context to be measured at."""

ONE_ROW: Final = 1


@dataclass(frozen=True, slots=True, order=True)
class PassShape:
    """The rows of one pass.

    Attributes:
        n_rows: rows of the pass, a chain behind the context.
        n_outputs: how many of them, the last ones, have their logits computed and their best token found.
    """

    n_rows: int
    n_outputs: int


@dataclass(frozen=True, slots=True)
class CurvePlan:
    """Which passes are timed, and how often. Raises ConfigError when it is made without rows or rounds.

    Attributes:
        rows: rows of the passes whose every row has logits, as in verification; rising.
        prompt_rows: rows of the passes of which only the last row has logits, as over a prompt; rising.
        contexts: positions in the cache before a pass; rising, at least 1 each.
        n_rounds: rounds for each context, None where `seconds` decides.
        seconds: rounds begin for so long, all contexts together; each context gets at least one round.
        cpu_time: time the calling thread's CPU instead of the clock on the wall; right only with one thread.
    """

    rows: tuple[int, ...]
    prompt_rows: tuple[int, ...]
    contexts: tuple[int, ...]
    n_rounds: int | None = 5
    seconds: float | None = None
    cpu_time: bool = False

    def __post_init__(self) -> None:
        if not self.rows and not self.prompt_rows:
            raise ConfigError("there are no rows to measure", "give some with --rows")
        if not self.contexts or min(self.contexts) < 1:
            raise ConfigError("there is no context to measure at", "give at least 1 with --context")
        if (self.n_rounds is None) == (self.seconds is None):
            raise ConfigError("--repeat and --seconds contradict each other", "one of the two says when to stop")

    @property
    def max_rows(self) -> int:
        """Rows of the largest pass, filling included."""
        return max(*self.rows, *self.prompt_rows, FILL_ROWS)

    @property
    def n_context(self) -> int:
        """Positions that a model must have room for."""
        return max(self.contexts) + max(*self.rows, *self.prompt_rows, ONE_ROW)

    @property
    def shapes(self) -> tuple[PassShape, ...]:
        """Every pass of a round but the yardsticks, the narrow ones first; T(1) is one of the yardsticks."""
        narrow = [PassShape(n_rows, n_rows) for n_rows in self.rows if n_rows != ONE_ROW]
        return (*narrow, *(PassShape(n_rows, 1) for n_rows in self.prompt_rows if n_rows != ONE_ROW))


YARDSTICK: Final = PassShape(ONE_ROW, ONE_ROW)
"""T(1): timed at the beginning and the end of every round, because everything is compared with it and it tells how busy the machine is."""
