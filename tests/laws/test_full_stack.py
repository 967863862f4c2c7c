"""The law of the whole step: policy x drafter x verifier through the engine, caches and all, by exact enumeration."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from threading import Event

import numpy as np
import pytest

from outrider.config import SamplingOptions
from outrider.drafting.drafter import Drafter, DraftJob
from outrider.drafting.model import ModelDrafter
from outrider.drafting.none import NoDrafter
from outrider.engine import Engine
from outrider.generation import Request
from outrider.policy.fixed import FixedPolicy
from outrider.policy.policy import Policy, StepContext
from outrider.sampling.chain import SamplerChain
from outrider.sampling.draw import inverse_cdf_token
from outrider.sampling.noise import KeyedNoise
from outrider.testing import TableModel, blend, random_table
from outrider.types import EMPTY_DRAFT, ROOT, Distribution, Draft, DraftMode, EmittedToken, Logits, TokenKind
from outrider.verify import Noise, Purpose, make_verifier
from tests.laws.branching import Law, Tokens, completed, distance, law_of, model_of, text_law

EXACT = 1e-12
N_VOCAB = 3
PROMPT = [0, 2, 1]
OFF = SamplingOptions(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)

Table = Callable[[tuple[int, ...]], Logits]

TARGET: Table = cache(random_table(N_VOCAB, order=2, seed=1, sharpness=1.0))
NEAR: Table = cache(blend(TARGET, random_table(N_VOCAB, order=2, seed=2, sharpness=1.0), 0.4))
FAR: Table = cache(random_table(N_VOCAB, order=2, seed=3, sharpness=1.5))


@dataclass(frozen=True)
class Stack:
    """A whole configuration; `drafters` and `policy` make new ones, as both keep state.

    With `n_steps` the budget is no limit: the generation is left after so many steps, and its law is continued by the
    target's own up to `n_tokens`. That is cheaper where drafts have many nodes.
    """

    drafters: Callable[[], list[Drafter]]
    policy: Callable[[], Policy] = FixedPolicy
    options: SamplingOptions = OFF
    verifier: str = "rejection"
    mode: DraftMode = "sample"
    n_tokens: int = 4
    n_steps: int | None = None
    end_tokens: frozenset[int] = frozenset()
    target: Table = TARGET

    def text(self, noise: Noise) -> Tokens:
        """Token ids of one generation."""
        return tuple(token.id for token in self.generate(noise))

    def generate(self, noise: Noise) -> list[EmittedToken]:
        """One generation, caches checked after every step."""
        model = TableModel(self.target, N_VOCAB)
        engine = Engine(model, self.drafters(), self.policy())
        chain, verifier = SamplerChain(self.options), make_verifier(self.verifier)
        max_tokens = self.n_tokens if self.n_steps is None else None
        request = Request(list(PROMPT), chain, verifier, self.mode, noise, max_tokens, self.end_tokens)
        generation = engine.open(request)
        for _ in islice(engine.generate(generation), self.n_steps):
            assert generation.sequence.length == len(generation.tokens) - 1
        engine.close(generation)
        assert not model.open_sequences
        return generation.emitted

    def error(self, law: Law[Tokens] | None = None) -> float:
        """How far the law of the text (enumerated here if not given) is from plain decoding's."""
        law = law_of(self.text) if law is None else law
        model = model_of(self.target, SamplerChain(self.options))
        if self.n_steps is not None:
            law = completed(law, model, tuple(PROMPT), self.n_tokens)
        return distance(law, text_law(model, tuple(PROMPT), self.n_tokens, self.end_tokens))


# ---------------------------------------------------------------------- drafters


def small_model(table: Table = NEAR, name: str = "model") -> ModelDrafter:
    return ModelDrafter(TableModel(table, N_VOCAB), N_VOCAB, name=name)


class Lookup(NoDrafter):
    """Repeats what followed the last token when it came up before: deterministic given the text."""

    name = "lookup"

    def propose(self, jobs: Seq[DraftJob], cancel: Event | None = None) -> list[Draft]:
        return [self.continue_text(job) for job in jobs]

    def continue_text(self, job: DraftJob) -> Draft:
        text = job.tokens
        found = [place + 1 for place in range(len(text) - 1) if text[place] == text[-1]]
        return Draft.chain(text[found[-1] :][: job.budget.max_tokens], self.name) if found else EMPTY_DRAFT


class Tree(NoDrafter):
    """Two first-level draws of the small model, a point mass below the first, a draw below the second: as the budget allows.

    Like any drafter that samples, it begins with as many point masses as the budget asks for.
    """

    name = "tree"

    def propose(self, jobs: Seq[DraftJob], cancel: Event | None = None) -> list[Draft]:
        return [self.grow(job) for job in jobs]

    def grow(self, job: DraftJob) -> Draft:
        parents = (ROOT, ROOT, 0, 1)[: job.budget.max_tokens]
        tokens: list[int] = []
        probs: list[Distribution | None] = []
        for node, parent in enumerate(parents):
            history = (*job.tokens, *([] if parent == ROOT else [tokens[parent]]))
            drawn_from = job.chain.distribution(NEAR(history), list(history))
            is_point = node == 2 or node < job.budget.min_tokens
            tokens.append(
                drawn_from.mode if is_point else inverse_cdf_token(drawn_from, job.noise.uniform(len(job.tokens), node, Purpose.DRAFT))
            )
            probs.append(None if is_point else drawn_from)
        n_nodes = len(tokens)
        return Draft(tuple(tokens), parents, (self.name,) * n_nodes, tuple(probs), (0.5,) * n_nodes)


DRAFTERS: dict[str, Callable[[], list[Drafter]]] = {
    "none": lambda: [NoDrafter()],
    "near model": lambda: [small_model(NEAR)],
    "far model": lambda: [small_model(FAR)],
    "the target itself": lambda: [small_model(TARGET)],
    "lookup": lambda: [Lookup()],
}


def lookup_else_model() -> list[Drafter]:
    return [Lookup(), small_model(NEAR)]


POLICIES: dict[str, Callable[[], Policy]] = {
    "off": lambda: FixedPolicy(0),
    "defaults": FixedPolicy,
    "no rules": lambda: FixedPolicy(16, 0.0, 0),
    "one token": lambda: FixedPolicy(1, 0.0, 0),
    "p-min": lambda: FixedPolicy(3, 0.5, 0),
    "draft-min": lambda: FixedPolicy(3, 0.0, 2),
    "p-min and draft-min": lambda: FixedPolicy(3, 0.55, 2),
    "p-min of 1": lambda: FixedPolicy(3, 1.0, 1),
}


@pytest.mark.parametrize("policy", ["no rules", "p-min", "draft-min", "p-min and draft-min"])
def test_what_is_enumerated_here_does_speculate(policy: str) -> None:
    stack = Stack(DRAFTERS["near model"], POLICIES[policy])
    kinds = {token.kind for seed in range(40) for token in stack.generate(KeyedNoise(seed))}
    assert {TokenKind.ACCEPTED, TokenKind.RECOVERED, TokenKind.BONUS} <= kinds


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("drafters", DRAFTERS.values(), ids=DRAFTERS.keys())
def test_rejection_keeps_the_law_of_the_text(drafters: Callable[[], list[Drafter]], policy: Callable[[], Policy]) -> None:
    assert Stack(drafters, policy).error() < EXACT


@pytest.mark.parametrize("policy", ["no rules", "draft-min", "p-min and draft-min"])
def test_rejection_keeps_the_law_when_drafters_compete(policy: str) -> None:
    assert Stack(lookup_else_model, POLICIES[policy], n_tokens=3).error() < EXACT


@pytest.mark.parametrize("mode", ["argmax", "sample"])
@pytest.mark.parametrize("policy", ["no rules", "p-min and draft-min"])
def test_rejection_is_indifferent_to_how_the_draft_model_picks(mode: DraftMode, policy: str) -> None:
    assert Stack(DRAFTERS["near model"], POLICIES[policy], mode=mode).error() < EXACT


CHAINS = {
    "temperature": replace(OFF, temperature=0.6),
    "top-k": replace(OFF, top_k=2),
    "top-p": replace(OFF, top_p=0.7),
    "min-p": replace(OFF, min_p=0.4),
    "penalties": replace(OFF, repeat_penalty=1.5, presence_penalty=0.3, frequency_penalty=0.2, penalty_last_n=3),
    "all": SamplingOptions(temperature=0.8, top_k=2, top_p=0.9, min_p=0.1, presence_penalty=0.5),
}


@pytest.mark.parametrize("options", CHAINS.values(), ids=CHAINS.keys())
@pytest.mark.parametrize("policy", ["no rules", "p-min and draft-min"])
def test_the_law_is_that_of_the_sampler_chain(options: SamplingOptions, policy: str) -> None:
    assert Stack(DRAFTERS["near model"], POLICIES[policy], options).error() < EXACT


def masked(table: Table) -> Table:
    """A target that forbids one token, another one after each last token."""

    def row(history: tuple[int, ...]) -> Logits:
        logits = table(history).copy()
        logits[(history[-1] + 1) % N_VOCAB] = -np.inf
        return logits

    return row


@pytest.mark.parametrize("drafters", ["near model", "far model", "lookup"])
def test_tokens_that_the_target_forbids_never_come_out(drafters: str) -> None:
    stack = Stack(DRAFTERS[drafters], POLICIES["no rules"], target=masked(TARGET))
    assert stack.error() < EXACT


@pytest.mark.parametrize("end", [0, 1, 2])
@pytest.mark.parametrize("drafters", ["near model", "lookup"])
def test_an_end_token_cuts_the_same_texts_as_in_plain_decoding(drafters: str, end: int) -> None:
    assert Stack(DRAFTERS[drafters], POLICIES["no rules"], end_tokens=frozenset({end})).error() < EXACT


def test_the_draft_model_may_know_the_end_token_too() -> None:
    def stops() -> list[Drafter]:
        return [ModelDrafter(TableModel(NEAR, N_VOCAB), N_VOCAB, frozenset({1}))]

    assert Stack(stops, POLICIES["p-min and draft-min"], end_tokens=frozenset({1})).error() < EXACT


@pytest.mark.parametrize("options", [OFF, CHAINS["penalties"]], ids=["plain chain", "penalties"])
@pytest.mark.parametrize("draft_min", [0, 2])
def test_trees_keep_the_law_of_the_text(options: SamplingOptions, draft_min: int) -> None:
    # the first step ends the prompt, the second has a tree
    stack = Stack(lambda: [Tree()], lambda: FixedPolicy(4, 0.0, draft_min), options, n_steps=2)
    law = law_of(stack.text)
    assert stack.error(law) < EXACT
    assert {len(text) for text in law} == {2, 3, 4}


# ---------------------------------------------------------------------- parity


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("drafters", [*DRAFTERS.values(), lookup_else_model, lambda: [Tree()]], ids=[*DRAFTERS, "both", "tree"])
@pytest.mark.parametrize(("verifier", "mode"), [("match", "gumbel"), ("match", "sample"), ("greedy", "argmax")])
def test_match_and_greedy_give_plain_decodings_text(
    drafters: Callable[[], list[Drafter]], policy: Callable[[], Policy], verifier: str, mode: DraftMode
) -> None:
    options = replace(OFF, temperature=0.0 if verifier == "greedy" else 0.9)
    for seed in range(1 if verifier == "greedy" else 4):
        stack = Stack(drafters, policy, options, verifier, mode, n_tokens=10)
        plain = replace(stack, drafters=DRAFTERS["none"])
        assert stack.text(KeyedNoise(seed)) == plain.text(KeyedNoise(seed))


# ---------------------------------------------------------------------- the law can fail


class DropsUnlikelyDraws(FixedPolicy):
    """Breaks the fairness law: verifies a draft only if the first token that was drawn is token 0."""

    def select(self, contexts: Seq[StepContext], candidates: Seq[Seq[Draft]]) -> list[Draft]:
        chosen = super().select(contexts, candidates)
        return [draft if len(draft) and draft.tokens[0] == 0 else EMPTY_DRAFT for draft in chosen]


class StopsAtUnlikelyDraws(ModelDrafter):
    """Breaks it inside the drafter: the stop rule looks at the probability of the token that was drawn, which it drops."""

    def propose(self, jobs: Seq[DraftJob], cancel: Event | None = None) -> list[Draft]:
        return [self.before_first_doubt(draft) for draft in super().propose(jobs, cancel)]

    def before_first_doubt(self, draft: Draft) -> Draft:
        doubts = [node for node, probs in enumerate(draft.probs) if probs and probs.probability(draft.tokens[node]) < 0.4]
        length = doubts[0] if doubts else len(draft)
        return Draft.chain(list(draft.tokens[:length]), "model", list(draft.probs[:length]))


def test_a_policy_that_drops_a_draft_for_what_was_drawn_is_caught() -> None:
    assert Stack(DRAFTERS["near model"], lambda: DropsUnlikelyDraws(3, 0.0, 0), n_tokens=3).error() > 0.01


def test_a_stop_rule_that_looks_at_what_was_drawn_is_caught() -> None:
    stack = Stack(lambda: [StopsAtUnlikelyDraws(TableModel(NEAR, N_VOCAB), N_VOCAB)], POLICIES["no rules"], n_tokens=3)
    assert stack.error() > 0.001


def test_the_same_policy_is_free_under_match() -> None:
    options = replace(OFF, temperature=0.9)
    for seed in range(20):
        stack = Stack(DRAFTERS["near model"], lambda: DropsUnlikelyDraws(3, 0.0, 0), options, "match", "gumbel", n_tokens=12)
        assert stack.text(KeyedNoise(seed)) == replace(stack, drafters=DRAFTERS["none"]).text(KeyedNoise(seed))
