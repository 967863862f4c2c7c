"""Checked by mypy in `make lint`, never run: what implements a port does so by its types, and misuse is a type error.

An ignore that is no longer needed is an error too, so each line below fails if the types get looser.
"""

from __future__ import annotations

from outrider.drafting.drafter import Drafter
from outrider.drafting.model import ModelDrafter
from outrider.drafting.none import NoDrafter
from outrider.model import Evaluation, LanguageModel, Segment, Sequence
from outrider.policy.fixed import FixedPolicy
from outrider.policy.policy import Policy
from outrider.sampling.noise import KeyedNoise
from outrider.testing import TableModel, random_table
from outrider.text.tokenizer import Tokenizer
from outrider.types import Draft, Verification
from outrider.verify import GreedyVerifier, MatchVerifier, Noise, RejectionVerifier, Verifier

table_model = TableModel(random_table(8), 8)
model: LanguageModel = table_model
sequence: Sequence = model.open()
evaluation: Evaluation = model.evaluate([Segment(sequence, (1, 2))])
drafters: list[Drafter] = [NoDrafter(), ModelDrafter(model, 8)]
policy: Policy = FixedPolicy()
verifiers: list[Verifier] = [GreedyVerifier(), MatchVerifier(), RejectionVerifier()]
noise: Noise = KeyedNoise(1)

not_a_model: LanguageModel = policy  # type: ignore[assignment]
not_a_drafter: Drafter = model  # type: ignore[assignment]
not_a_tokenizer: Tokenizer = noise  # type: ignore[assignment]
model.evaluate([(sequence, (1, 2))])  # type: ignore[list-item]
flag: bool = sequence.truncate(1)  # type: ignore[assignment, func-returns-value]
Draft.chain([1], "model").tokens = ()  # type: ignore[misc]
Verification((0,), 1, "bonus")  # type: ignore[arg-type]
