"""Exact enumeration of random programs: noise that takes both sides of every comparison, each with its probability."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from outrider.sampling.chain import SamplerChain
from outrider.types import Distribution, Logits, TokenIds
from outrider.verify import Purpose

Outcome = TypeVar("Outcome", bound=Hashable)
Law = dict[Outcome, float]
Tokens = tuple[int, ...]


@dataclass(eq=False)
class BranchingNoise:
    """Follows a script of decisions, then takes the first side of each and notes the other.

    A draw is one number however often it is asked for, so a program that uses one key for two purposes gets the correlated
    numbers that it deserves.
    """

    script: tuple[bool, ...]
    probability: float = 1.0
    taken: list[bool] = field(default_factory=list)
    untaken: list[tuple[bool, ...]] = field(default_factory=list)
    draws: dict[tuple[int, int, Purpose], Undecided] = field(default_factory=dict)

    def uniform(self, start: int, offset: int, purpose: Purpose) -> Undecided:
        return self.draws.setdefault((start, offset, purpose), Undecided(self))

    def gumbel(self, position: int, ids: TokenIds) -> np.ndarray:
        raise AssertionError("Gumbel noise cannot be enumerated: its rule is tested by parity")

    def decide(self, probability: float) -> bool:
        if len(self.taken) < len(self.script):
            side = self.script[len(self.taken)]
        else:
            side = True
            self.untaken.append((*self.taken, False))
        self.taken.append(side)
        self.probability *= probability if side else 1.0 - probability
        return side


class Undecided:
    """A uniform in [low, high). No arithmetic: only `<` is exact, and all else fails loudly."""

    def __init__(self, noise: BranchingNoise) -> None:
        self.noise = noise
        self.low, self.high = 0.0, 1.0

    def __lt__(self, threshold: float) -> bool:
        if threshold <= self.low:
            return False
        if threshold >= self.high:
            return True
        below = self.noise.decide((threshold - self.low) / (self.high - self.low))
        if below:
            self.high = float(threshold)
        else:
            self.low = float(threshold)
        return below


def law_of(experiment: Callable[[BranchingNoise], Outcome]) -> Law[Outcome]:
    """The exact distribution of what a program returns, given all its uniforms by `noise`."""
    mass: dict[Outcome, list[float]] = defaultdict(list)
    pending: list[tuple[bool, ...]] = [()]
    while pending:
        noise = BranchingNoise(pending.pop())
        mass[experiment(noise)].append(noise.probability)
        pending += noise.untaken
    return {outcome: math.fsum(parts) for outcome, parts in mass.items()}


Model = Callable[[Tokens], Distribution]


def model_of(table: Callable[[Tokens], Logits], chain: SamplerChain) -> Model:
    """Next-token distributions of a table of logits behind a sampler chain."""
    return lambda history: chain.distribution(table(history), list(history))


def text_law(model: Model, prompt: Tokens, n_tokens: int, end_tokens: frozenset[int] = frozenset()) -> Law[Tokens]:
    """The law of plain decoding: the product of the conditionals, an end token cut off with all that follows."""
    law: dict[Tokens, float] = defaultdict(float)
    pending: list[tuple[Tokens, float]] = [((), 1.0)]
    while pending:
        text, mass = pending.pop()
        if len(text) == n_tokens:
            law[text] += mass
            continue
        distribution = model(prompt + text)
        for token, probability in zip(distribution.ids.tolist(), distribution.probs.tolist(), strict=True):
            if token in end_tokens:
                law[text] += mass * probability
            else:
                pending.append(((*text, token), mass * probability))
    return dict(law)


def completed(law: Law[Tokens], model: Model, prompt: Tokens, n_tokens: int) -> Law[Tokens]:
    """A law over texts of any length as one over texts of `n_tokens`: the longer cut, the shorter continued by `model`."""
    whole: dict[Tokens, float] = defaultdict(float)
    for text, mass in law.items():
        kept = text[:n_tokens]
        for rest, probability in text_law(model, prompt + kept, n_tokens - len(kept)).items():
            whole[kept + rest] += mass * probability
    return dict(whole)


def distance(first: Law[Outcome], second: Law[Outcome]) -> float:
    """The largest difference between two laws."""
    return max(abs(first.get(outcome, 0.0) - second.get(outcome, 0.0)) for outcome in first.keys() | second.keys())
