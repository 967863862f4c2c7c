"""The port of a drafter: anything that proposes tokens, a model or a lookup."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from outrider.policy.policy import DraftBudget
from outrider.sampling.chain import SamplerChain
from outrider.types import Draft, DraftMode, Tokens, Verification
from outrider.verify.verifier import Noise


class DraftState(Protocol):
    """What a drafter keeps for one generation. Opaque to the engine."""


@dataclass(frozen=True, slots=True)
class DraftJob:
    """A request for one draft.

    Attributes:
        state: what `open` returned for this generation.
        tokens: prompt + everything emitted; the last one is pending. Read it, don't keep or change it.
        budget: limits and stop rule, from the policy.
        mode: how tokens are picked.
        chain: the target's sampler chain, which both sides pass through.
        noise: keyed noise of this generation.
    """

    state: DraftState
    tokens: Tokens
    budget: DraftBudget
    mode: DraftMode
    chain: SamplerChain
    noise: Noise


@dataclass(frozen=True, slots=True)
class DraftOutcome:
    """What became of a step, for the drafter to learn from.

    Attributes:
        draft: what was sent to the target (perhaps trimmed, perhaps another drafter's).
        verification: what the target said, before any cut.
        tokens: prompt + everything emitted after the cut.
    """

    draft: Draft
    verification: Verification
    tokens: Tokens = field(repr=False)


class Drafter(Protocol):
    """Proposes tokens; can change speed, never output."""

    @property
    def name(self) -> str:
        """Reported as the source of its tokens."""
        ...

    def open(self, prompt: Tokens, reference: Tokens | None, cancel: Event | None = None) -> DraftState:
        """Begin a generation. `reference` is a text that the answer is expected to resemble, if there is one."""
        ...

    def reopen(self, state: DraftState, prompt: Tokens, reference: Tokens | None, n_shared: int) -> None:
        """Begin another generation with the state of the one before, whose text shares its first `n_shared` tokens with `prompt`."""
        ...

    def prepare(self, state: DraftState, tokens: Tokens, cancel: Event | None = None) -> int:
        """Catch up on `tokens` now rather than inside the next `propose`; how many tokens that evaluated.

        Optional: a policy that expects a short answer may never pay for it.
        """
        ...

    def resting(self, state: DraftState, n_tokens: int) -> str | None:
        """Why the drafter cannot propose after `n_tokens` tokens (its context is full, say), or None if it can."""
        ...

    def lag(self, state: DraftState, n_tokens: int) -> int:
        """How many tokens of a text of `n_tokens` tokens a model behind it has not evaluated; 0 for what has no model."""
        ...

    def propose(self, jobs: Seq[DraftJob], cancel: Event | None = None) -> list[Draft]:
        """One draft per job, perhaps empty; one batched pass per depth over all sequences.

        A draft begins with the budget's prefix, unless there is nothing to add to it.
        """
        ...

    def resolve(self, state: DraftState, outcome: DraftOutcome) -> None:
        """Take note of what the target kept; drops what was rejected."""
        ...

    def close(self, state: DraftState) -> None:
        """End the generation and free what it held."""
        ...
