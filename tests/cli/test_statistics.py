"""The statistics under an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.cli.statistics import statistics, summary
from outrider.metrics import DrafterMetrics, RunMetrics
from outrider.result import GenerationResult, Timings
from outrider.types import EmittedToken, StopReason, TokenKind

TIMINGS = Timings(
    prompt_ms=310.4,
    prompt_tokens=52,
    prompt_evaluated=52,
    draft_prompt_evaluated=52,
    decode_ms=2000.0,
    decode_tokens=79,
    draft_ms=600.0,
    verify_ms=1380.0,
    host_ms=20.0,
    total_ms=2310.4,
    plain_step_ms=40.0,
)
METRICS = RunMetrics(steps=20, emitted=80, proposed=66, drafted=64, accepted=60, refused=3, by_drafter={"model": DrafterMetrics(64, 60)})
RESULT = GenerationResult(
    text="x" * 80,
    tokens=[EmittedToken(1, "model", TokenKind.ACCEPTED)] * 80,
    token_texts=["x"] * 80,
    stop_reason=StopReason.LENGTH,
    stop_string=None,
    timings=TIMINGS,
    metrics=METRICS,
    is_active=True,
    reason="",
    is_bit_exact=False,
)


def test_all_of_them() -> None:
    assert statistics(RESULT, 100) == [
        "speed        39.5 tokens/s, about 1.58x of plain decoding",
        "speculation  60 of 64 draft tokens accepted (93.8 %), 4.00 tokens per target pass",
        "time         prompt 310 ms for 52 tokens, then 2.00 s; drafting 30 %, target 69 %, host 1 %",
        "stopped      the token limit (-n), after 80 tokens",
    ]
    assert summary(RESULT) == (
        "80 tokens at 39.5/s, 60 of 64 drafted accepted, 1.58x plain, read 52 new tokens (draft 52), stopped: the token limit (-n)"
    )


def test_slower_than_plain_is_said() -> None:
    slow = replace(RESULT, timings=replace(TIMINGS, decode_ms=4000.0))
    assert "about 0.79x of plain decoding: SLOWER than --plain would have been" in statistics(slow, 100)[0]


@pytest.mark.parametrize("decode_ms", [2800.0, 3160.0, 3900.0])
def test_close_to_plain_is_no_verdict(decode_ms: float) -> None:
    near = statistics(replace(RESULT, timings=replace(TIMINGS, decode_ms=decode_ms)), 100)[0]
    assert "about as fast as plain decoding (estimated " in near
    assert "SLOWER" not in near


def test_a_short_answer_is_no_verdict() -> None:
    short = replace(RESULT, timings=replace(TIMINGS, decode_tokens=31, decode_ms=4000.0))
    assert statistics(short, 100)[0] == "speed        7.8 tokens/s"
    assert "plain" not in summary(short)


def test_plain_decoding_says_why_and_claims_no_speed_up() -> None:
    plain = replace(RESULT, is_active=False, reason="there is no draft model (-md)", metrics=RunMetrics(steps=80, emitted=80))
    plain = replace(plain, timings=replace(TIMINGS, draft_ms=0.0))
    lines = statistics(plain, 100)
    assert lines[:2] == ["speed        39.5 tokens/s", "speculation  off: there is no draft model (-md)"]
    assert "drafting" not in lines[2]
    assert "draft" not in summary(plain)


def test_a_drafter_that_rests_is_named() -> None:
    assert statistics(replace(RESULT, reason="model rests: its context is full"), 200)[1].endswith("; model rests: its context is full")
    idle = replace(RESULT, reason="it was never sure", metrics=RunMetrics(steps=80, emitted=80))
    assert statistics(idle, 100)[1] == "speculation  nothing was drafted: it was never sure"


def test_several_drafters_have_a_row_each() -> None:
    several = replace(METRICS, by_drafter={"model": DrafterMetrics(50, 48), "suffix": DrafterMetrics(14, 12)})
    lines = statistics(replace(RESULT, metrics=several), 100)
    assert lines[2:4] == ["  model      48 of 50 accepted", "  suffix     12 of 14 accepted"]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (StopReason.END_OF_GENERATION, "the model ended its answer"),
        (StopReason.CONTEXT, "the context is full (-c)"),
        (StopReason.CANCELLED, "Ctrl-C"),
    ],
)
def test_why_it_stopped(reason: StopReason, text: str) -> None:
    assert statistics(replace(RESULT, stop_reason=reason), 100)[-1] == f"stopped      {text}, after 80 tokens"


def test_a_stop_string_is_shown() -> None:
    stopped = replace(RESULT, stop_reason=StopReason.STOP_STRING, stop_string="\n\n")
    assert statistics(stopped, 100)[-1] == r"stopped      the stop string '\n\n' came, after 80 tokens"


def test_nothing_to_measure() -> None:
    short = replace(TIMINGS, decode_tokens=0, decode_ms=0.0, draft_ms=0.0, verify_ms=0.0, host_ms=0.0, prompt_tokens=1, prompt_evaluated=1)
    empty = replace(RESULT, tokens=[], token_texts=[], text="", timings=short, metrics=RunMetrics(), stop_reason=StopReason.CANCELLED)
    assert statistics(empty, 100)[0] == "speed        too short to measure"
    assert statistics(empty, 100)[2] == "time         1 of 1 prompt token read in 310 ms"
    assert statistics(empty, 100)[-1] == "stopped      Ctrl-C, after 0 tokens"
    assert summary(empty).startswith("0 tokens, read 1 new token ")


def test_a_second_turn_says_what_was_new() -> None:
    later = replace(RESULT, timings=replace(TIMINGS, prompt_tokens=152, prompt_evaluated=9))
    assert "prompt 310 ms for 152 tokens (9 of them new)" in statistics(later, 100)[2]


@pytest.mark.parametrize("width", [0, 40, 60, 80, 200])
def test_lines_fit(width: int) -> None:
    assert max(map(len, statistics(RESULT, width))) <= max(width, 40)


def test_every_stop_reason_has_a_text() -> None:
    for reason in StopReason:
        assert statistics(replace(RESULT, stop_reason=reason), 100)
