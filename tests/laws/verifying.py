"""Rows of a pure target for one draft, and the experiment draw-a-draft, verify-it, read-the-text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outrider.sampling.draw import inverse_cdf_token
from outrider.types import ROOT, Distribution, Draft
from outrider.verify import Noise, Purpose, RejectionVerifier, Verifier
from tests.laws.branching import BranchingNoise, Model, Tokens


@dataclass
class ModelRows:
    """Implements RowSource over a function from histories to distributions; notes which rows were asked for."""

    model: Model
    prompt: Tokens
    draft: Draft

    def __post_init__(self) -> None:
        self.asked: list[int] = []

    @property
    def start(self) -> int:
        return len(self.prompt)

    def distribution(self, node: int) -> Distribution:
        self.asked.append(node)
        path = [] if node == ROOT else self.draft.path(node)
        return self.model(self.prompt + tuple(self.draft.tokens[member] for member in path))

    def argmax(self, node: int) -> int:
        return self.distribution(node).mode


@dataclass(frozen=True)
class Shape:
    """How a drafter builds its drafts.

    Attributes:
        parents: of each node.
        rules: of each node: from the history before it and the tokens of its earlier siblings to what it is drawn from, or
            to a token that is not drawn at all.
    """

    parents: tuple[int, ...]
    rules: tuple[Callable[[Tokens, Tokens], Distribution | int], ...]

    @staticmethod
    def chain(*rules: Callable[[Tokens, Tokens], Distribution | int]) -> Shape:
        return Shape(tuple(range(-1, len(rules) - 1)), rules)


def propose(shape: Shape, prompt: Tokens, noise: Noise) -> Draft:
    """Draw a draft of this shape."""
    tokens: list[int] = []
    probs: list[Distribution | None] = []
    for node, (parent, rule) in enumerate(zip(shape.parents, shape.rules, strict=True)):
        so_far = Draft(tuple(tokens), shape.parents[:node], ("model",) * node, (None,) * node, (1.0,) * node)
        before = tuple(tokens[member] for member in ([] if parent == ROOT else so_far.path(parent)))
        siblings = tuple(tokens[child] for child in so_far.children(parent))
        drawn_from = rule(prompt + before, siblings)
        if isinstance(drawn_from, Distribution):
            tokens.append(inverse_cdf_token(drawn_from, noise.uniform(len(prompt), node, Purpose.DRAFT)))
            probs.append(drawn_from)
        else:
            tokens.append(drawn_from)
            probs.append(None)
    n_nodes = len(tokens)
    return Draft(tuple(tokens), shape.parents, ("model",) * n_nodes, tuple(probs), (1.0,) * n_nodes)


def one_step(
    shape: Shape,
    model: Model,
    prompt: Tokens = (0,),
    verifier: Verifier | None = None,
    keep: Callable[[Draft], Draft] = lambda draft: draft,
) -> Callable[[BranchingNoise], Tokens]:
    """The text that one step emits. `keep` is what a policy makes of the draft once it is drawn."""
    rule = verifier or RejectionVerifier()

    def experiment(noise: BranchingNoise) -> Tokens:
        draft = keep(propose(shape, prompt, noise))
        verification = rule.verify(draft, ModelRows(model, prompt, draft), noise)
        return (*(draft.tokens[node] for node in verification.path), verification.token)

    return experiment
