"""One generation: a request, and everything that the engine keeps for it between steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from outrider.drafting.drafter import DraftState
from outrider.model import Sequence
from outrider.policy.policy import GenerationKey
from outrider.sampling.chain import SamplerChain
from outrider.types import DraftMode, EmittedToken, StopReason, Tokens
from outrider.verify.verifier import Noise, Verifier


@dataclass(frozen=True, slots=True)
class Request:
    """What to generate, in token ids.

    Attributes:
        prompt: at least one token.
        chain: the sampler chain that target and draft pass through.
        verifier: the verification rule.
        draft_mode: how a model drafter picks tokens under that rule.
        noise: keyed noise; one object per (seed, choice).
        max_tokens: emit at most this many, or None: until the model or the context ends.
        end_tokens: ids that end the generation; they are not part of the output.
        is_last: called with each emitted token in order; True ends the generation after that token (a stop string).
        reference: a text that the answer is expected to resemble, for drafters that can use one.
    """

    prompt: Tokens
    chain: SamplerChain
    verifier: Verifier
    draft_mode: DraftMode
    noise: Noise
    max_tokens: int | None = None
    end_tokens: frozenset[int] = frozenset()
    is_last: Callable[[int], bool] | None = None
    reference: Tokens | None = None


@dataclass(slots=True, eq=False)
class Generation:
    """A request under way.

    Invariant between steps: the target's cache holds `len(tokens) - 1` tokens and the last one is pending. Before the
    first step the cache may hold less of the prompt; the step takes the rest along.

    Attributes:
        request: what was asked for.
        sequence: the target's cache line.
        draft_states: one per drafter, in the engine's order.
        tokens: prompt + everything emitted.
        emitted: the output so far.
        stop_reason: why it ended, or None while it runs.
        resting: drafter name to the reason why it does not propose any more.
        n_prompt_evaluated: prompt tokens that the target had to evaluate (the others were cached).
        n_draft_prompt_evaluated: the same for the drafters' own models.
        key: stands for this generation where a policy keeps things about it.
    """

    request: Request
    sequence: Sequence
    draft_states: list[DraftState]
    tokens: Tokens
    emitted: list[EmittedToken] = field(default_factory=list)
    stop_reason: StopReason | None = None
    resting: dict[str, str] = field(default_factory=dict)
    n_prompt_evaluated: int = 0
    n_draft_prompt_evaluated: int = 0
    is_closed: bool = False
    key: GenerationKey = field(default_factory=GenerationKey)

    @property
    def remaining(self) -> int:
        """Tokens that may still be emitted, as far as the request goes."""
        limit = self.request.max_tokens
        return (1 << 62) if limit is None else limit - len(self.emitted)
