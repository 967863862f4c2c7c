"""A pair without weights behind the real command line: models that recite, and a file that runs `outrider` with them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from threading import Event
from typing import Any

import numpy as np

from outrider import loading
from outrider.api import Loaded, Pair
from outrider.config import Settings
from outrider.errors import ConfigError
from outrider.models.progress import Progress
from outrider.testing import N_BYTES, ByteTokenizer, TableEvaluation, TableModel
from outrider.text.template import ChatTemplate
from outrider.types import Logits

SPECIALS = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
SYSTEM, USER, ASSISTANT = (N_BYTES + SPECIALS.index(text) for text in SPECIALS[1:])
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.role == 'assistant' %}<|end|>{% endif %}{% endfor %}<|assistant|>"
ANSWERS = {
    "rocket": "to the 🚀 moon",
    "escape": "a\x1b[31mred\x1b[0m\x07z",
    "long": "la " * 400,
    "lines": "one\ntwo\n",
    "stop": "before STOP after",
}
ANSWER = "def add(a, b):\n    return a + b"


def answer_to(message: str) -> str:
    return next((text for word, text in ANSWERS.items() if word in message), ANSWER)


def recite(mistake_every: int = 0) -> Callable[[tuple[int, ...]], Logits]:
    """A table that writes the answer to the last message; every so many bytes it is wrong."""

    def table(history: tuple[int, ...]) -> Logits:
        row = np.zeros(N_BYTES + len(SPECIALS), np.float32)
        row[_next_token(history, mistake_every)] = 20.0
        return row

    return table


def _next_token(history: tuple[int, ...], mistake_every: int) -> int:
    text = list(history)
    if ASSISTANT not in text:
        return ord("r")  # a raw prompt goes on for ever
    at = len(text) - 1 - text[::-1].index(ASSISTANT)
    users = [index for index in range(at) if text[index] == USER]
    message = bytes(token for token in text[users[-1] : at] if token < N_BYTES).decode("utf-8", "replace") if users else ""
    written = len(text) - at - 1
    answer = answer_to(message).encode()
    if mistake_every and written % mistake_every == mistake_every - 1:
        return ord("?")
    return answer[written] if written < len(answer) else N_BYTES


class SlowModel(TableModel):
    """Takes FAKE_DELAY_S for each pass; after FAKE_STUCK_AFTER passes it never comes back."""

    delay_s = float(os.environ.get("FAKE_DELAY_S", "0"))
    stuck_after = int(os.environ.get("FAKE_STUCK_AFTER", "1000000"))

    def evaluate(self, segments: Any, cancel: Event | None = None) -> TableEvaluation:
        time.sleep(self.delay_s)
        if len(self.passes) >= self.stuck_after:
            print("stuck", end="", file=sys.stderr, flush=True)
            time.sleep(3600)
        return super().evaluate(segments, cancel)


def fake_load(settings: Settings, progress: Callable[[str], Progress] | None = None) -> Pair:
    """As `outrider.loading.load`, with recited models."""
    if settings.model.model is None:
        raise ConfigError("there is no model to run", "name one with -m")
    if progress is not None and "FAKE_PULL" in os.environ:
        report = progress(settings.model.model)
        report.note("from a fake")
        report.start(100, 0)
        report.update(100)
        report.stop()
    n_vocab = N_BYTES + len(SPECIALS)
    context = settings.model.context or 2048
    target = SlowModel(recite(), n_vocab, n_context=context)
    draft = TableModel(recite(mistake_every=9), n_vocab, n_context=context) if settings.model.draft_model else None
    loaded = Loaded(
        target=target,
        tokenizer=ByteTokenizer(SPECIALS, end=SPECIALS[:1]),
        template=ChatTemplate(TEMPLATE),
        draft=draft,
        n_shared_vocab=n_vocab,
        notices=["this pair is a fake"],
    )
    return Pair(loaded, settings)


def main() -> int:
    """The command line with the fake pair, for tests that need a process of their own."""
    from outrider.cli.main import main as outrider

    if os.isatty(0):  # a session's first process owns the terminal that it opens: Ctrl-C comes from there
        os.close(os.open(os.ttyname(0), os.O_RDWR))
    loading.load = fake_load
    return outrider()


if __name__ == "__main__":
    sys.exit(main())
