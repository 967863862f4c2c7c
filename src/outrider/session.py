"""Text in, text out, over an engine: one conversation with its caches, streamed token by token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from outrider.config import GenerationOptions, SamplingOptions
from outrider.engine import Engine
from outrider.errors import OutriderError
from outrider.generation import Generation, Request
from outrider.metrics import RunMetrics
from outrider.policy.policy import StepRecord
from outrider.result import GenerationResult, Timings
from outrider.sampling.chain import SamplerChain
from outrider.sampling.noise import KeyedNoise
from outrider.text.stream import TextStream
from outrider.text.tokenizer import Tokenizer
from outrider.types import DraftMode, EmittedToken, StopReason, Tokens
from outrider.verify import make_verifier

DRAFT_MODES: dict[str, DraftMode] = {"greedy": "argmax", "match": "gumbel", "rejection": "sample"}
"""How a model drafter picks tokens under each verification rule."""


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One emitted token, as it happens.

    Attributes:
        text: what may be shown now; "" inside a character or while a stop string could still come.
        token: the token, or None for text that was held back to the end.
        rejected: texts of the draft tokens that the target refused just before this token.
    """

    text: str
    token: EmittedToken | None
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about a generation that does not depend on its prompt.

    Attributes:
        generation: when to stop.
        sampling: the sampler chain; `seed` is set here even if the user gave none.
        rule: name of the verification rule.
        reason: why speculation cannot run, known before the first step; "" if it can.
        config: option values and their origins, for the result.
        plain_step_ms: T(1), if it was measured.
    """

    generation: GenerationOptions
    sampling: SamplingOptions
    rule: str
    reason: str = ""
    config: dict[str, dict[str, Any]] = field(default_factory=dict)
    plain_step_ms: float | None = None


class Session:
    """One conversation over an engine. What a prompt shares with the text before it is not evaluated again.

    Not thread-safe; setting the `cancel` event from another thread or a signal handler is fine.

    Args:
        engine: target, drafters and policy.
        tokenizer: the target's.
        clock: seconds; the engine's own.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, clock: Callable[[], float] = time.perf_counter) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._clock = clock
        self._generation: Generation | None = None

    @property
    def tokens(self) -> Tokens:
        """Prompt and answer of the latest generation; [] before the first."""
        return list(self._generation.tokens) if self._generation is not None else []

    def generate(
        self,
        prompt: Tokens,
        plan: Plan,
        on_token: Callable[[TokenEvent], None] | None = None,
        cancel: Event | None = None,
    ) -> GenerationResult:
        """Run one prompt to its end.

        Raises:
            EmptyPromptError, ContextLengthError: before any work; the conversation so far is untouched.
            EngineError: the model failed.
        """
        run = _Run(self, plan, on_token, cancel)
        return run.finish(prompt)

    def close(self) -> None:
        """Free the caches; closing twice is harmless."""
        generation, self._generation = self._generation, None
        if generation is not None:
            self._engine.close(generation)

    def begin(self, request: Request) -> Generation:
        """Open the request on top of the conversation's caches."""
        previous = self._generation if self._generation is not None and not self._generation.is_closed else None
        self._generation = self._engine.open(request, previous)
        return self._generation

    def records(self, generation: Generation, cancel: Event | None) -> Iterator[StepRecord]:
        """The engine's steps.

        Anything that is no error of ours, such as KeyboardInterrupt, may strike in the middle of a pass. Then nobody knows what
        the caches hold, so they are given up, and the next prompt is read from its beginning.
        """
        try:
            yield from self._engine.generate(generation, cancel)
        except (OutriderError, GeneratorExit):
            raise
        except BaseException:
            self.close()
            raise

    @property
    def engine(self) -> Engine:
        """Target, drafters and policy."""
        return self._engine

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's."""
        return self._tokenizer

    def now_ms(self) -> float:
        """The clock, in milliseconds."""
        return self._clock() * 1e3


class _Run:
    """One call of `Session.generate`."""

    def __init__(self, session: Session, plan: Plan, on_token: Callable[[TokenEvent], None] | None, cancel: Event | None) -> None:
        self._session = session
        self._plan = plan
        self._on_token = on_token
        self._cancel = cancel
        self._stream = TextStream(session.tokenizer, plan.generation.stop)
        self._metrics = RunMetrics()
        self._pieces: list[str] = []
        self._n_shown = 0

    def finish(self, prompt: Tokens) -> GenerationResult:
        began_ms = self._session.now_ms()
        generation = self._session.begin(self._request(prompt))
        first_ms = last_ms = None
        for record in self._session.records(generation, self._cancel):
            self._metrics.add(record)
            if record.n_emitted:
                last_ms = self._session.now_ms()
                first_ms = last_ms if first_ms is None else first_ms
            self._show(generation, record)
        if tail := self._stream.finish():
            self._emit(TokenEvent(tail, None))
        ended_ms = self._session.now_ms()
        first_ms = ended_ms if first_ms is None else first_ms
        timings = Timings(
            prompt_ms=first_ms - began_ms,
            prompt_tokens=len(prompt),
            prompt_evaluated=generation.n_prompt_evaluated,
            draft_prompt_evaluated=generation.n_draft_prompt_evaluated,
            decode_ms=(last_ms if last_ms is not None else first_ms) - first_ms,
            decode_tokens=max(0, len(generation.emitted) - 1),
            draft_ms=self._metrics.draft_ms,
            verify_ms=self._metrics.verify_ms,
            host_ms=self._metrics.host_ms,
            total_ms=ended_ms - began_ms,
            plain_step_ms=self._plain_step_ms(),
        )
        return self._result(generation, timings)

    def _plain_step_ms(self) -> float | None:
        """T(1). A busy machine only ever adds time, and a speed-up must not be made of noise: the smaller measurement counts."""
        measured = [ms for ms in (self._plan.plain_step_ms, self._metrics.measured_plain_pass_ms) if ms is not None]
        return min(measured, default=self._metrics.plain_pass_ms)

    def _request(self, prompt: Tokens) -> Request:
        plan = self._plan
        limit = plan.generation.max_tokens
        return Request(
            prompt=prompt,
            chain=SamplerChain(plan.sampling),
            verifier=make_verifier(plan.rule),
            draft_mode=DRAFT_MODES[plan.rule],
            noise=KeyedNoise(plan.sampling.seed or 0),
            max_tokens=None if limit < 0 else limit,
            end_tokens=frozenset() if plan.generation.ignore_eos else self._session.tokenizer.end_tokens,
            is_last=self._push,
        )

    def _push(self, token: int) -> bool:
        self._pieces.append(self._stream.push(token))
        return self._stream.stopped

    def _show(self, generation: Generation, record: StepRecord) -> None:
        n_path = len(record.verification.path)
        kept = set(record.verification.path)
        rejected = tuple(self._text(token) for node, token in enumerate(record.draft.tokens) if node not in kept)
        for index, token in enumerate(generation.emitted[self._n_shown :]):
            self._emit(TokenEvent(self._pieces[self._n_shown], token, rejected if index == n_path else ()))
            self._n_shown += 1

    def _text(self, token: int) -> str:
        return self._session.tokenizer.piece(token).decode("utf-8", "replace")

    def _emit(self, event: TokenEvent) -> None:
        if self._on_token is not None:
            self._on_token(event)

    def _result(self, generation: Generation, timings: Timings) -> GenerationResult:
        reason = self._plan.reason or "; ".join(f"{name} rests: {why}" for name, why in generation.resting.items())
        if not reason and self._metrics.steps > 1 and not self._metrics.drafted:
            reason = "no draft was sent: the drafter was never sure enough, or every draft was shorter than --draft-min"
        return GenerationResult(
            text=self._stream.text,
            tokens=list(generation.emitted),
            token_texts=self._stream.token_texts,
            stop_reason=generation.stop_reason or StopReason.CANCELLED,
            stop_string=self._stream.stop_string,
            timings=timings,
            metrics=self._metrics,
            is_active=not self._plan.reason,
            reason=reason,
            is_bit_exact=self._session.engine.target.capabilities.bit_exact,
            config=self._plan.config,
        )
