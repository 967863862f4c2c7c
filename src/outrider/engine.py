"""The speculative loop: plan, propose, evaluate, verify, emit, commit, learn. Token ids only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from threading import Event

from outrider.drafting.drafter import Drafter, DraftJob, DraftOutcome
from outrider.errors import CancelledError, ConfigError, ContextLengthError, EmptyPromptError, EngineError
from outrider.generation import Generation, Request
from outrider.model import LanguageModel, Segment
from outrider.policy.policy import DraftBudget, Policy, StepContext, StepRecord
from outrider.rows import TargetRows
from outrider.stopwatch import Stopwatch
from outrider.types import TARGET, Draft, EmittedToken, StopReason, TokenKind, Verification


@dataclass(slots=True)
class _Step:
    """One step under way, for every generation in it."""

    generations: list[Generation]
    watch: Stopwatch
    contexts: list[StepContext] = field(default_factory=list)
    drafter_ms: dict[str, float] = field(default_factory=dict)
    n_proposed: list[int] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    n_pending: list[int] = field(default_factory=list)
    rows: list[TargetRows] = field(default_factory=list)
    verifications: list[Verification] = field(default_factory=list)
    n_emitted: list[int] = field(default_factory=list)


class Engine:
    """Steps a list of generations over one target model.

    Args:
        target: the model whose text it is.
        drafters: who may propose; `[NoDrafter()]` is plain decoding on the same path.
        policy: how much to draft and what to verify.
        clock: seconds; every time that is reported comes from it.

    Raises:
        ConfigError: no drafter, or the target cannot drop refused tokens.
    """

    def __init__(
        self, target: LanguageModel, drafters: Seq[Drafter], policy: Policy, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        if not drafters:
            raise ConfigError("the engine has no drafter", "give it NoDrafter() for plain decoding")
        if target.capabilities.rollback == "none" and any(drafter.name != "none" for drafter in drafters):
            raise ConfigError("this target model cannot drop refused tokens from its cache", "use it with --plain")
        self.target = target
        self.drafters = list(drafters)
        self.policy = policy
        self._clock = clock

    def open(self, request: Request, previous: Generation | None = None) -> Generation:
        """Begin a generation; evaluates nothing yet.

        Args:
            request: what to generate.
            previous: a generation whose caches to take over (the turn before in a chat); it is closed by this. Whatever
                its text and the new prompt share is not evaluated again, on target and drafters alike.

        Raises:
            EmptyPromptError, ContextLengthError: before any work, `previous` untouched.
        """
        n_context = self.target.capabilities.n_context
        if not request.prompt:
            raise EmptyPromptError("the prompt is empty", "give at least one token of text")
        if len(request.prompt) >= n_context:
            raise ContextLengthError(
                f"the prompt has {len(request.prompt)} tokens, the context holds {n_context}",
                "shorten the prompt or raise -c" if n_context else "raise -c",
            )
        if previous is not None:
            return self._take_over(request, previous)
        sequence = self.target.open()
        generation = Generation(request, sequence, [], list(request.prompt))
        try:
            generation.draft_states = [drafter.open(request.prompt, request.reference) for drafter in self.drafters]
        except BaseException:
            sequence.close()
            raise
        return generation

    def prefill(self, generation: Generation, cancel: Event | None = None) -> None:
        """Evaluate the prompt, except for a last chunk that the first step takes along; all of it on the drafters that should.

        The first step therefore emits one token, without a draft, at no extra pass.
        """
        self._shorten_backlog(generation, self.target.capabilities.max_rows, cancel)
        context = self._context(generation, 0)
        for drafter, state in zip(self.drafters, generation.draft_states, strict=True):
            if self.policy.prepares(context, drafter.name):
                generation.n_draft_prompt_evaluated += drafter.prepare(state, generation.tokens, cancel)

    def step(self, generations: Seq[Generation], cancel: Event | None = None) -> list[StepRecord]:
        """One round for every generation that still runs; a record for each of them, in order.

        Raises:
            CancelledError and other EngineErrors: every generation is as it was before the step.
        """
        step = _Step(self._runnable(generations), Stopwatch(self._clock))
        if not step.generations:
            return []
        self._plan(step, cancel)
        self._propose(step, cancel)
        self._evaluate(step, cancel)
        try:
            self._verify(step)
            self._emit(step)
        except BaseException:
            self._undo(step)
            raise
        self._commit(step)
        return self._learn(step)

    def generate(self, generation: Generation, cancel: Event | None = None) -> Iterator[StepRecord]:
        """Step one generation to its end, prompt included. Stopping early or cancelling leaves it ready to go on."""
        try:
            self.prefill(generation, cancel)
            while generation.stop_reason is None:
                yield from self.step([generation], cancel)
        except CancelledError:
            generation.stop_reason = StopReason.CANCELLED

    def close(self, generation: Generation) -> None:
        """Free the generation's caches; closing twice is harmless."""
        if generation.is_closed:
            return
        generation.is_closed = True
        try:
            for drafter, state in zip(self.drafters, generation.draft_states, strict=True):
                drafter.close(state)
        finally:
            generation.sequence.close()

    # ------------------------------------------------------------------ the verbs of a step

    def _plan(self, step: _Step, cancel: Event | None) -> None:
        share = self.target.capabilities.max_rows // len(step.generations)
        if share < 1:
            raise EngineError(f"{len(step.generations)} generations do not fit one pass", "step fewer at a time")
        for generation in step.generations:
            self._shorten_backlog(generation, share, cancel)
        step.contexts = [self._context(generation, share - 1) for generation in step.generations]

    def _propose(self, step: _Step, cancel: Event | None) -> None:
        candidates: list[list[Draft]] = [[] for _ in step.generations]
        step.n_proposed = [0] * len(step.generations)
        for index, drafter in enumerate(self.drafters):
            budgets = self.policy.plan(step.contexts, drafter.name, candidates)
            asked = [i for i, budget in enumerate(budgets) if budget.max_tokens]
            if not asked:
                continue
            began = self._clock()
            with step.watch.lap("draft"):
                drafts = drafter.propose([self._job(step.generations[i], budgets[i], index) for i in asked], cancel)
            step.drafter_ms[drafter.name] = (self._clock() - began) * 1e3
            for i, draft in zip(asked, drafts, strict=True):
                candidates[i].append(draft)
                step.n_proposed[i] += max(0, len(draft) - len(budgets[i].prefix))
        step.drafts = self.policy.select(step.contexts, candidates)
        for draft, context in zip(step.drafts, step.contexts, strict=True):
            if len(draft) > context.max_draft or not (draft.is_chain or self.target.capabilities.tree):
                raise EngineError(f"the policy chose a draft of {len(draft)} tokens that the target cannot take", "report this")

    def _evaluate(self, step: _Step, cancel: Event | None) -> None:
        segments = []
        for generation, draft in zip(step.generations, step.drafts, strict=True):
            pending = generation.tokens[generation.sequence.length :]
            step.n_pending.append(len(pending))
            segments.append(Segment(generation.sequence, (*pending, *draft.tokens), _parents(len(pending), draft), 1 + len(draft)))
        with step.watch.lap("verify"):
            evaluation = self.target.evaluate(segments, cancel)
        root = -1
        for generation, draft, n_pending in zip(step.generations, step.drafts, step.n_pending, strict=True):
            root += n_pending
            step.rows.append(TargetRows(evaluation, root, draft, generation, self.target.capabilities, step.watch))
            root += len(draft)

    def _verify(self, step: _Step) -> None:
        step.verifications = [
            generation.request.verifier.verify(draft, rows, generation.request.noise)
            for generation, draft, rows in zip(step.generations, step.drafts, step.rows, strict=True)
        ]

    def _emit(self, step: _Step) -> None:
        for generation, draft, verification in zip(step.generations, step.drafts, step.verifications, strict=True):
            tokens = [EmittedToken(draft.tokens[node], draft.sources[node], TokenKind.ACCEPTED) for node in verification.path]
            tokens.append(EmittedToken(verification.token, TARGET, verification.kind))
            step.n_emitted.append(self._append(generation, tokens))

    def _undo(self, step: _Step) -> None:
        """A rule, or the judge of the emitted tokens, has failed: nothing of this step was emitted."""
        for generation, rows in zip(step.generations, step.rows, strict=True):
            n_emitted = len(generation.tokens) - rows.start
            del generation.tokens[rows.start :]
            del generation.emitted[len(generation.emitted) - n_emitted :]
            generation.stop_reason = None
            if self.target.capabilities.rollback == "none":  # what it has read cannot be dropped
                self.close(generation)
            else:
                generation.sequence.commit(())

    def _commit(self, step: _Step) -> None:
        for generation, verification, n_pending, n_emitted in zip(
            step.generations, step.verifications, step.n_pending, step.n_emitted, strict=True
        ):
            # the rows that were pending, then the accepted ones; the last emitted token is pending now, so its row goes
            path = [*range(n_pending), *(n_pending + node for node in verification.path)]
            n_kept = n_pending - 1 + n_emitted
            if self.target.capabilities.rollback == "none":  # there is no draft then, and the end token's row cannot be dropped
                n_kept = n_pending
            generation.sequence.commit(path[:n_kept])
            if len(generation.emitted) == n_emitted:  # the first step, which took the rest of the prompt along
                generation.n_prompt_evaluated += n_pending

    def _learn(self, step: _Step) -> list[StepRecord]:
        with step.watch.lap("draft"):
            for generation, draft, verification in zip(step.generations, step.drafts, step.verifications, strict=True):
                outcome = DraftOutcome(draft, verification, generation.tokens)
                for drafter, state in zip(self.drafters, generation.draft_states, strict=True):
                    drafter.resolve(state, outcome)
        n_rows = sum(step.n_pending) + sum(map(len, step.drafts))
        times = step.watch.finish()
        records = [
            StepRecord(
                draft=draft,
                n_proposed=n_proposed,
                verification=verification,
                n_emitted=n_emitted,
                n_accepted=min(n_emitted, len(verification.path)),
                draft_ms=times.get("draft", 0.0),
                verify_ms=times.get("verify", 0.0),
                host_ms=times["host"],
                context=context,
                n_rows=n_rows,
                drafter_ms=step.drafter_ms,
            )
            for draft, n_proposed, verification, n_emitted, context in zip(
                step.drafts, step.n_proposed, step.verifications, step.n_emitted, step.contexts, strict=True
            )
        ]
        self.policy.observe(records)
        return records

    # ------------------------------------------------------------------ details

    def _shorten_backlog(self, generation: Generation, n_rows: int, cancel: Event | None) -> None:
        """Evaluate tokens in chunks until at most `n_rows` of them are left for the next step."""
        sequence, tokens = generation.sequence, generation.tokens
        while (n_left := len(tokens) - sequence.length) > n_rows:
            n_chunk = min(self.target.capabilities.max_rows, n_left - 1)
            chunk = tokens[sequence.length : sequence.length + n_chunk]
            self.target.evaluate([Segment(sequence, tuple(chunk), n_outputs=0)], cancel)
            sequence.commit(range(n_chunk))
            generation.n_prompt_evaluated += n_chunk

    def _take_over(self, request: Request, previous: Generation) -> Generation:
        if previous.is_closed:
            raise EngineError("the generation to continue is closed", "open a new one")
        try:
            n_cached = previous.sequence.length
        except EngineError:  # a failed pass took the cache with it: read the text anew
            self.close(previous)
            return self.open(request)
        shared = _shared_length(previous.tokens, request.prompt)
        kept = min(shared, n_cached, len(request.prompt) - 1)
        if kept < n_cached and self.target.capabilities.rollback == "none":
            self.close(previous)
            return self.open(request)
        previous.sequence.truncate(kept)
        for drafter, state in zip(self.drafters, previous.draft_states, strict=True):
            drafter.reopen(state, request.prompt, request.reference, shared)
        previous.is_closed = True
        return Generation(request, previous.sequence, previous.draft_states, list(request.prompt))

    def _runnable(self, generations: Seq[Generation]) -> list[Generation]:
        running = []
        for generation in generations:
            if generation.is_closed:
                raise EngineError("a closed generation cannot be stepped", "open a new one")
            if generation.stop_reason is not None:
                continue
            if generation.remaining <= 0:
                generation.stop_reason = StopReason.LENGTH
            elif not generation.sequence.reserve(1):
                generation.stop_reason = StopReason.CONTEXT
            else:
                running.append(generation)
        return running

    def _context(self, generation: Generation, share: int) -> StepContext:
        n_tokens = len(generation.tokens)
        n_pending = n_tokens - generation.sequence.length
        room = min(share, self.target.capabilities.n_context - n_tokens, generation.remaining - 1)
        if n_pending > 1:  # the last chunk of a prompt: its first token comes before any draft
            room = 0
        while room > 0 and not generation.sequence.reserve(n_pending + room):
            room //= 2
        available: dict[str, int] = {}
        for drafter, state in zip(self.drafters, generation.draft_states, strict=True):
            reason = drafter.resting(state, n_tokens)
            if reason is None:
                available[drafter.name] = drafter.lag(state, n_tokens)
            else:
                generation.resting[drafter.name] = reason
        return StepContext(
            n_tokens=n_tokens,
            remaining=generation.remaining,
            max_draft=max(room, 0),
            drafters=tuple(available),
            lags=tuple(available.values()),
            n_emitted=len(generation.emitted),
            mode=generation.request.draft_mode,
            key=generation.key,
        )

    def _job(self, generation: Generation, budget: DraftBudget, drafter_index: int) -> DraftJob:
        request = generation.request
        return DraftJob(
            state=generation.draft_states[drafter_index],
            tokens=generation.tokens,
            budget=budget,
            mode=request.draft_mode,
            chain=request.chain,
            noise=request.noise,
        )

    def _append(self, generation: Generation, tokens: list[EmittedToken]) -> int:
        request = generation.request
        for n_before, token in enumerate(tokens):
            if token.id in request.end_tokens:
                generation.stop_reason = StopReason.END_OF_GENERATION
                return n_before
            generation.tokens.append(token.id)
            generation.emitted.append(token)
            if request.is_last is not None and request.is_last(token.id):
                generation.stop_reason = StopReason.STOP_STRING
            elif generation.remaining <= 0:
                generation.stop_reason = StopReason.LENGTH
            elif len(generation.tokens) > self.target.capabilities.n_context:
                generation.stop_reason = StopReason.CONTEXT
            if generation.stop_reason is not None:
                return n_before + 1
        return len(tokens)


def _parents(n_pending: int, draft: Draft) -> tuple[int, ...]:
    """Parents in the segment's own numbering, where the draft follows the pending tokens; () for a chain."""
    if draft.is_chain:
        return ()
    return (*range(-1, n_pending - 1), *(parent + n_pending for parent in draft.parents))


def _shared_length(first: Seq[int], second: Seq[int]) -> int:
    """Length of the common prefix."""
    n_shared = min(len(first), len(second))
    if first[:n_shared] == second[:n_shared]:
        return n_shared
    return next(i for i in range(n_shared) if first[i] != second[i])
