"""A drafter that asks a small language model, and keeps that model's KV cache from step to step."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from threading import Event
from typing import cast

from outrider.drafting.drafter import DraftJob, DraftOutcome, DraftState
from outrider.errors import CacheFullError
from outrider.model import Evaluation, LanguageModel, Segment, Sequence
from outrider.sampling.draw import gumbel_token, inverse_cdf_token
from outrider.types import EMPTY_DRAFT, Distribution, Draft, Tokens
from outrider.verify.verifier import Purpose


@dataclass(slots=True)
class ModelDraftState:
    """The draft model's cache line of one generation.

    Attributes:
        sequence: the cache line.
        tokens: what it holds; `len(tokens) == sequence.length`.
        n_agreed: how many of them are known to be the text's own; the rest are drafts that may have been refused.
        rest_reason: why it has stopped proposing for good, or None.
    """

    sequence: Sequence
    tokens: Tokens = field(default_factory=list)
    n_agreed: int = 0
    rest_reason: str | None = None

    def truncate(self, length: int) -> None:
        """Drop everything from `length` on, in the cache and in the account of it."""
        if length < len(self.tokens):
            self.sequence.truncate(length)
            del self.tokens[length:]
        self.n_agreed = min(self.n_agreed, length)

    def agree(self, text: Tokens) -> None:
        """Drop the tail that is not a prefix of `text`; looks only at what is not known to agree."""
        n_shared = min(len(self.tokens), len(text))
        length = self.n_agreed
        while length < n_shared and self.tokens[length] == text[length]:
            length += 1
        self.truncate(length)
        self.n_agreed = length


@dataclass(slots=True)
class _Chain:
    """A draft in the making; `tokens` are those that the model has added to the budget's prefix."""

    job: DraftJob
    limit: int
    unseen: Tokens  # what the next pass feeds
    tokens: Tokens = field(default_factory=list)
    probs: list[Distribution | None] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    is_open: bool = True

    @property
    def state(self) -> ModelDraftState:
        return cast(ModelDraftState, self.job.state)


class ModelDrafter:
    """Drafts chains with a small model.

    It drops the refused tail and feeds only the tokens it has not seen, inside its first pass; what it drafted and the
    target kept is never evaluated again. Several generations share each pass.

    Args:
        model: the draft model; the drafter uses it alone.
        n_shared_vocab: ids from here on mean nothing to the target and are never drafted.
        end_tokens: ids after which there is nothing to draft.
        name: the source that its tokens carry.
    """

    def __init__(
        self,
        model: LanguageModel,
        n_shared_vocab: int,
        end_tokens: frozenset[int] = frozenset(),
        name: str = "model",
    ) -> None:
        self._model = model
        self._n_shared_vocab = n_shared_vocab
        self._end_tokens = end_tokens
        self._name = name

    @property
    def name(self) -> str:
        """The source that its tokens carry."""
        return self._name

    def open(self, prompt: Tokens, reference: Tokens | None, cancel: Event | None = None) -> ModelDraftState:
        """Take a cache line. A reference text is of no use to a model."""
        return ModelDraftState(self._model.open())

    def prepare(self, state: DraftState, tokens: Tokens, cancel: Event | None = None) -> int:
        """Evaluate all of `tokens` but the last; the last goes into the first draft pass."""
        own = cast(ModelDraftState, state)
        own.agree(tokens)
        if self._rests(own, tokens):
            return 0
        n_before = len(own.tokens)
        try:
            self._catch_up(own, tokens, len(tokens) - 1, cancel)
        except CacheFullError as error:
            own.rest_reason = f"the draft model's KV cache is full: {error.message}"
        return len(own.tokens) - n_before

    def reopen(self, state: DraftState, prompt: Tokens, reference: Tokens | None, n_shared: int) -> None:
        """Forget everything from token `n_shared` on."""
        own = cast(ModelDraftState, state)
        own.truncate(n_shared)
        own.rest_reason = None

    def resting(self, state: DraftState, n_tokens: int) -> str | None:
        """A reason once the text has outgrown the draft model's context or its cache is full."""
        own = cast(ModelDraftState, state)
        n_context = self._model.capabilities.n_context
        if own.rest_reason is None and n_tokens > n_context:
            own.rest_reason = f"the draft model's context of {n_context} tokens is full"
        return own.rest_reason

    def lag(self, state: DraftState, n_tokens: int) -> int:
        """What the cache lacks; the unseen tokens ride in the first draft pass."""
        return max(0, n_tokens - cast(ModelDraftState, state).n_agreed)

    def propose(self, jobs: Seq[DraftJob], cancel: Event | None = None) -> list[Draft]:
        """Draft all jobs side by side, one pass per depth, each until its budget, its stop rule or an end token."""
        chains = [self._begin(job, cancel) for job in jobs]
        while running := [chain for chain in chains if chain.is_open]:
            room = self._model.capabilities.max_rows
            for group in _groups(running, room):
                self._extend(group, cancel)
        return [self._draft(chain) for chain in chains]

    def resolve(self, state: DraftState, outcome: DraftOutcome) -> None:
        """Drop the refused tail."""
        cast(ModelDraftState, state).agree(outcome.tokens)

    def close(self, state: DraftState) -> None:
        """Give the cache line back."""
        cast(ModelDraftState, state).sequence.close()

    def _draft(self, chain: _Chain) -> Draft:
        if not chain.tokens:
            return EMPTY_DRAFT
        return chain.job.budget.prefix.followed_by(Draft.chain(chain.tokens, self._name, chain.probs, chain.acceptance))

    def _begin(self, job: DraftJob, cancel: Event | None) -> _Chain:
        state = cast(ModelDraftState, job.state)
        state.agree(job.tokens)
        # the last row of the text must be evaluated again if the cache already holds all of it: its logits are gone
        state.truncate(len(job.tokens) - 1)
        chain = _Chain(job, limit=0, unseen=[])
        prefix = job.budget.prefix.tokens
        if self._rests(state, job.tokens) or not self._can_continue(job.budget.prefix):
            chain.is_open = False
            return chain
        # the last drafted token is never evaluated, so a context with one free position gives one token
        chain.limit = min(job.budget.max_tokens, self._model.capabilities.n_context - len(job.tokens) + 1) - len(prefix)
        chain.is_open = chain.limit > 0 and self._pays(job)
        if chain.is_open:
            self._reserve(chain, cancel)
        return chain

    def _can_continue(self, prefix: Draft) -> bool:
        """Whether a draft can go on after this chain."""
        return not any(token >= self._n_shared_vocab or token in self._end_tokens for token in prefix.tokens)

    @staticmethod
    def _pays(job: DraftJob) -> bool:
        return job.budget.rule is None or job.budget.rule.pays()

    def _rests(self, state: ModelDraftState, tokens: Tokens) -> bool:
        """Whether it cannot draft after this text; looks at the tokens that it has not seen."""
        unknown = next((token for token in tokens[len(state.tokens) :] if token >= self._n_shared_vocab), None)
        if state.rest_reason is None and unknown is not None:
            state.rest_reason = f"the text has token {unknown}, which the draft model does not know"
        return self.resting(state, len(tokens)) is not None

    def _reserve(self, chain: _Chain, cancel: Event | None) -> None:
        state, tokens, prefix = chain.state, chain.job.tokens, chain.job.budget.prefix.tokens
        n_unseen = len(tokens) - len(state.tokens) + len(prefix)
        if not state.sequence.reserve(n_unseen + chain.limit - 1):
            chain.is_open = False
            if not prefix:  # with one, there may be room without it
                state.rest_reason = "the draft model's KV cache is full"
            return
        if n_unseen > self._model.capabilities.max_rows:
            self._catch_up(state, tokens, len(tokens) - 1, cancel)
        chain.unseen = [*tokens[len(state.tokens) :], *prefix]
        chain.is_open = len(chain.unseen) <= self._model.capabilities.max_rows

    def _catch_up(self, state: ModelDraftState, tokens: Tokens, length: int, cancel: Event | None) -> None:
        max_rows = self._model.capabilities.max_rows
        while len(state.tokens) < length:
            chunk = tokens[len(state.tokens) : min(len(state.tokens) + max_rows, length)]
            self._model.evaluate([Segment(state.sequence, tuple(chunk), n_outputs=0)], cancel)
            state.sequence.commit(range(len(chunk)))
            state.tokens += chunk
            state.n_agreed = len(state.tokens)

    def _extend(self, chains: list[_Chain], cancel: Event | None) -> None:
        segments = [Segment(chain.state.sequence, tuple(chain.unseen), n_outputs=1) for chain in chains]
        evaluation = self._model.evaluate(segments, cancel)
        for chain in chains:  # all of them before the first draw, which may fail
            chain.state.sequence.commit(range(len(chain.unseen)))
            chain.state.tokens += chain.unseen
            if not chain.tokens:
                chain.state.n_agreed = len(chain.job.tokens)
        last = -1
        for chain in chains:
            last += len(chain.unseen)
            self._draw(chain, evaluation, last)

    def _draw(self, chain: _Chain, evaluation: Evaluation, node: int) -> None:
        best, best_logit = self._best(evaluation, node)
        confidence = math.exp(min(0.0, best_logit - float(evaluation.logsumexp([node])[0])))
        budget = chain.job.budget
        # before the draw: under sampling the token itself must not decide (fairness law)
        if confidence < budget.p_min or (budget.rule is not None and not budget.rule.admits(confidence)):
            chain.is_open = False
            return
        token, probs = self._pick(chain, evaluation, node, best)
        chain.tokens.append(token)
        chain.probs.append(probs)
        chain.acceptance.append(confidence)
        chain.unseen = [token]
        chain.is_open = len(chain.tokens) < chain.limit and token not in self._end_tokens and self._pays(chain.job)

    def _best(self, evaluation: Evaluation, node: int) -> tuple[int, float]:
        """The likeliest token that the target knows too, and its logit."""
        if self._model.capabilities.n_vocab <= self._n_shared_vocab:
            ids, values = evaluation.top_k([node], 1)
            return int(ids[0, 0]), float(values[0, 0])
        logits = evaluation.rows([node])[0][: self._n_shared_vocab]
        best = int(logits.argmax())
        return best, float(logits[best])

    def _pick(self, chain: _Chain, evaluation: Evaluation, node: int, best: int) -> tuple[int, Distribution | None]:
        job, prefix = chain.job, chain.job.budget.prefix
        depth = len(prefix) + len(chain.tokens)
        if job.mode == "argmax" and not job.chain.needs_history:
            return best, None
        logits = evaluation.rows([node])[0][: self._n_shared_vocab]
        history = [*job.tokens, *prefix.tokens, *chain.tokens] if job.chain.needs_history else []
        if job.mode == "argmax":
            return job.chain.argmax(logits, history), None
        distribution = job.chain.distribution(logits, history)
        if job.mode == "gumbel":
            return gumbel_token(distribution, job.noise, len(job.tokens) + depth), None
        if depth < job.budget.min_tokens:  # may be dropped after the fact, so it must not be random
            return distribution.mode, None
        uniform = job.noise.uniform(len(job.tokens), depth, Purpose.DRAFT)
        return inverse_cdf_token(distribution, uniform), distribution


def _groups(chains: list[_Chain], room: int) -> list[list[_Chain]]:
    """Split the chains so that each group's unseen tokens fit one pass."""
    groups: list[list[_Chain]] = [[]]
    n_rows = 0
    for chain in chains:
        if n_rows + len(chain.unseen) > room and groups[-1]:
            groups.append([])
            n_rows = 0
        groups[-1].append(chain)
        n_rows += len(chain.unseen)
    return groups
