"""The same promises on real weights: SmolLM2-135M."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from outrider.errors import CancelledError
from outrider.llama import LlamaModel, LlamaOptions, load
from outrider.llama.sequence import LlamaSequence
from outrider.model import Segment
from tests.llama.passes import SetOnQuestion, feed, fresh

CLOSE = 0.5
"""Quantised weights quantise the activations too, so the width of a pass shows; logits are around 20."""

CORPUS = """def café(naïve: str) -> "Σ":\n\treturn  naïve * 10**-3  # £5 ≈ 6 €, 100 %\r\n
Ünïcödé: 中文字符\uff0c日本語テキスト、한국어. Русский текст. العربية עברית हिन्दी ไทย
😀👩‍👩‍👧‍👦🏳️‍🌈 e\u0301 \u200b\ufeff \u00a0 \x00\x01\x7f ½ ﬁ Ⅷ
   leading,    inner     and trailing spaces   \n\n\n\t\t\t<|im_start|>user<|im_end|> <s> [INST]
it's they'll I'D we've 1234567890 3.14159e-10 0xDEADBEEF $$$ ``` ~~~ \\n \\\\ {"json": [1, 2, null]}"""


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> Iterator[LlamaModel]:
    loaded = load(smollm2_path, LlamaOptions(n_context=512, n_sequences=4, threads=1))
    yield loaded
    loaded.close()


@pytest.fixture
def prompt(model: LlamaModel) -> tuple[int, ...]:
    return tuple(model.tokenizer.encode("The capital of France is Paris. The capital of Italy is", parse_special=False, add_bos=True))


def test_text_and_bytes(model: LlamaModel) -> None:
    tokenizer = model.tokenizer
    assert tokenizer.n_vocab == model.capabilities.n_vocab == 49152
    for text in (CORPUS, *CORPUS.splitlines(keepends=True)):
        tokens = tokenizer.encode(text, parse_special=False, add_bos=False)
        assert b"".join(map(tokenizer.piece, tokens)) == text.encode()
    chat = tokenizer.encode("<|im_start|>user\n", parse_special=True, add_bos=False)
    assert tokenizer.piece(chat[0]) == b""
    [end] = tokenizer.encode("<|im_end|>", parse_special=True, add_bos=False)
    assert end in tokenizer.end_tokens


def test_it_knows_the_capital_of_italy(model: LlamaModel, prompt: tuple[int, ...]) -> None:
    sequence = model.open()
    [token] = model.evaluate([Segment(sequence, prompt, n_outputs=1)]).argmax([len(prompt) - 1])
    sequence.close()
    assert model.tokenizer.piece(int(token)) == b" Rome"


def test_rollback_then_evaluate_equals_fresh(model: LlamaModel, prompt: tuple[int, ...]) -> None:
    sequence = model.open()
    feed(model, sequence, prompt)
    sequence.truncate(6)
    again = feed(model, sequence, prompt[6:])
    assert np.allclose(again, fresh(model, prompt)[6:], atol=CLOSE)
    sequence.close()


def test_sequences_and_forks_equal_separate_runs(model: LlamaModel, prompt: tuple[int, ...]) -> None:
    first, second = model.open(), model.open()
    feed(model, first, prompt[:8])
    third = first.fork(5)
    evaluation = model.evaluate([Segment(first, prompt[8:]), Segment(second, prompt[:4]), Segment(third, prompt[:2])])
    logits = evaluation.rows(range(len(prompt) - 8 + 6)).copy()
    for sequence, kept in ((first, len(prompt) - 8), (second, 4), (third, 2)):
        sequence.commit(range(kept))
    expected = [fresh(model, prompt)[8:], fresh(model, prompt[:4]), fresh(model, prompt[:5] + prompt[:2])[5:]]
    assert np.allclose(logits, np.concatenate(expected), atol=CLOSE)
    for sequence in (first, second, third):
        sequence.close()


def test_a_cancelled_pass_leaves_no_trace(model: LlamaModel, prompt: tuple[int, ...]) -> None:
    sequence = model.open()
    feed(model, sequence, prompt[:8])
    with pytest.raises(CancelledError):
        model.evaluate([Segment(sequence, prompt[8:])], SetOnQuestion(100))
    assert sequence.length == 8
    assert np.allclose(feed(model, sequence, prompt[8:]), fresh(model, prompt)[8:], atol=CLOSE)
    sequence.close()


def run_passes(model: LlamaModel, sequence: LlamaSequence, tokens: tuple[int, ...], cancel: threading.Event) -> None:
    for _ in range(20):
        model.evaluate([Segment(sequence, tokens, n_outputs=0)], cancel)
        sequence.commit(())


def test_another_thread_can_cancel(model: LlamaModel, prompt: tuple[int, ...]) -> None:
    cancel = threading.Event()

    class Announcing(threading.Event):
        def is_set(self) -> bool:
            started.set()
            return cancel.is_set()

    started = threading.Event()
    canceller = threading.Thread(target=lambda: (started.wait(), cancel.set()))
    canceller.start()
    sequence = model.open()
    with pytest.raises(CancelledError):
        run_passes(model, sequence, (prompt * 50)[:500], Announcing())
    canceller.join()
    assert sequence.length == 0
    sequence.close()


def test_views_follow_the_next_pass(model: LlamaModel, prompt: tuple[int, ...]) -> None:
    sequence = model.open()
    evaluation = model.evaluate([Segment(sequence, prompt)])
    rows = evaluation.rows(range(len(prompt)))
    assert not rows.flags.owndata
    assert np.shares_memory(rows, evaluation.rows([3]))
    ids, best = evaluation.top_k([3], 5)
    assert best[0].tolist() == sorted(rows[3].tolist(), reverse=True)[:5]
    assert ids[0, 0] == evaluation.argmax([3])[0]
    exact = np.log(np.exp(rows[3].astype(np.longdouble) - rows[3].max()).sum()) + rows[3].max()
    assert abs(evaluation.logsumexp([3])[0] - float(exact)) < 1e-6
    sequence.close()
