"""Builds whole stacks on table models, for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.config import SamplingOptions
from outrider.drafting.model import ModelDrafter
from outrider.drafting.none import NoDrafter
from outrider.engine import Engine
from outrider.generation import Generation, Request
from outrider.policy.fixed import FixedPolicy
from outrider.policy.policy import StepRecord
from outrider.sampling.chain import SamplerChain
from outrider.sampling.noise import KeyedNoise
from outrider.session import DRAFT_MODES
from outrider.testing import TableModel, blend, random_table
from outrider.verify import make_verifier

N_VOCAB = 11


@dataclass
class Stack:
    """A target, perhaps a draft model that disagrees now and then, and an engine over them."""

    share: float | None = 0.3  # how much the draft model differs; None: no draft model
    policy: FixedPolicy = field(default_factory=lambda: FixedPolicy(4, 0.0, 0))
    n_context: int = 128
    max_rows: int = 32
    n_draft_context: int = 128
    sharpness: float = 2.0

    def __post_init__(self) -> None:
        table = random_table(N_VOCAB, order=2, seed=1, sharpness=self.sharpness)
        self.target = TableModel(table, N_VOCAB, n_context=self.n_context, max_rows=self.max_rows)
        if self.share is None:
            self.draft = None
            self.engine = Engine(self.target, [NoDrafter()], self.policy)
            return
        other = random_table(N_VOCAB, order=2, seed=2, sharpness=self.sharpness)
        self.draft = TableModel(blend(table, other, self.share), N_VOCAB, n_context=self.n_draft_context, max_rows=self.max_rows)
        self.engine = Engine(self.target, [ModelDrafter(self.draft, N_VOCAB)], self.policy)

    def run(self, request: Request) -> tuple[Generation, list[StepRecord]]:
        """Generate to the end, checking the invariant after every step, and close."""
        generation = self.engine.open(request)
        records = []
        for record in self.engine.generate(generation):
            records.append(record)
            assert generation.sequence.length == len(generation.tokens) - 1
        self.engine.close(generation)
        assert not self.target.open_sequences
        assert self.draft is None or not self.draft.open_sequences
        return generation, records


def request(rule: str = "greedy", temperature: float = 0.0, seed: int = 0, **more: object) -> Request:
    """A request over `N_VOCAB` tokens; `more` overrides fields of Request."""
    fields: dict[str, object] = {"prompt": [1, 2, 3], "max_tokens": 30}
    fields |= more
    return Request(
        chain=SamplerChain(SamplingOptions(temperature=temperature, top_k=0, top_p=1.0, min_p=0.0)),
        verifier=make_verifier(rule),
        draft_mode=DRAFT_MODES[rule],
        noise=KeyedNoise(seed),
        **fields,  # type: ignore[arg-type]
    )


def plain_tokens(wanted: Request, **stack: object) -> list[int]:
    """The answer of plain decoding to the same request."""
    generation, _ = Stack(share=None, **stack).run(wanted)  # type: ignore[arg-type]
    return [token.id for token in generation.emitted]
