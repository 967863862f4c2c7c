"""The plain baseline: a drafter that never proposes, so that plain decoding runs the very same code path."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from threading import Event

from outrider.drafting.drafter import DraftJob, DraftOutcome, DraftState
from outrider.types import EMPTY_DRAFT, Draft, Tokens


class NoDrafter:
    """Proposes nothing, costs nothing."""

    name = "none"

    def open(self, prompt: Tokens, reference: Tokens | None, cancel: Event | None = None) -> DraftState:
        """Nothing to keep."""
        return _NO_STATE

    def prepare(self, state: DraftState, tokens: Tokens, cancel: Event | None = None) -> int:
        """Nothing to catch up on."""
        return 0

    def reopen(self, state: DraftState, prompt: Tokens, reference: Tokens | None, n_shared: int) -> None:
        """Nothing to forget."""

    def resting(self, state: DraftState, n_tokens: int) -> str | None:
        """Never rests: it never works either."""
        return None

    def lag(self, state: DraftState, n_tokens: int) -> int:
        """There is no model that could be behind."""
        return 0

    def propose(self, jobs: Seq[DraftJob], cancel: Event | None = None) -> list[Draft]:
        """An empty draft per job."""
        return [EMPTY_DRAFT] * len(jobs)

    def resolve(self, state: DraftState, outcome: DraftOutcome) -> None:
        """Nothing to learn."""

    def close(self, state: DraftState) -> None:
        """Nothing to free."""


class _NoState:
    """The one state of a drafter that keeps nothing."""


_NO_STATE = _NoState()
