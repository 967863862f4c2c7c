"""A pair of table models that speaks bytes, for tests of everything above the engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outrider.api import Loaded, Pair
from outrider.config import GenerationOptions, ModelOptions, SamplingOptions, Settings, SpeculationOptions
from outrider.testing import ByteTokenizer, TableModel, blend, random_table
from outrider.text.template import ChatTemplate
from outrider.types import Logits

SPECIALS = ("<|end|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
N_VOCAB = 256 + len(SPECIALS)


def saying(text: str, n_vocab: int = N_VOCAB) -> Callable[[tuple[int, ...]], Logits]:
    """A table that answers every prompt with `text` and then the end token, as sure as can be."""
    answer = [*text.encode(), 256]

    def table(history: tuple[int, ...]) -> Logits:
        start = max((i for i, token in enumerate(history) if token == 258), default=-1)
        said = list(history[start + 1 :])
        row = np.full(n_vocab, -20.0, np.float32)
        row[answer[len(said)] if said == answer[: len(said)] and len(said) < len(answer) else 256] = 5.0
        return row

    return table


def printable(seed: int) -> Callable[[tuple[int, ...]], Logits]:
    """Noise over printable ASCII."""
    noise = random_table(N_VOCAB, order=2, seed=seed, sharpness=4.0)
    mask = np.full(N_VOCAB, -50.0, np.float32)
    mask[32:127] = 0

    def table(history: tuple[int, ...]) -> Logits:
        row: Logits = noise(history) + mask
        return row

    return table


def make_pair(
    answer: str | None = None,
    *,
    draft: bool = True,
    share: float = 0.3,
    n_context: int = 2048,
    template: str | None = TEMPLATE,
    generation: GenerationOptions | None = None,
    sampling: SamplingOptions | None = None,
    speculation: SpeculationOptions | None = None,
) -> Pair:
    """A pair on table models: one that says `answer`, or printable noise when there is none."""
    other = printable(2)
    table = saying(answer) if answer is not None else printable(1)
    loaded = Loaded(
        target=TableModel(table, N_VOCAB, n_context=n_context, max_rows=64, max_sequences=1),
        tokenizer=ByteTokenizer(SPECIALS),
        template=ChatTemplate(template) if template is not None else None,
        draft=TableModel(blend(table, other, share), N_VOCAB, n_context=n_context, max_rows=64, max_sequences=1) if draft else None,
        n_shared_vocab=N_VOCAB,
    )
    settings = Settings(
        model=ModelOptions(model="table", draft_model="table" if draft else None),
        generation=generation or GenerationOptions(max_tokens=40),
        sampling=sampling or SamplingOptions(),
        speculation=speculation or SpeculationOptions(draft_p_min=0.0),
    )
    return Pair(loaded, settings)
