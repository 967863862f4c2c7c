"""The statistics under an answer: how fast it was, what the draft was worth, where the time went, and why it ended."""

from __future__ import annotations

import textwrap

from outrider.result import GenerationResult
from outrider.types import StopReason

_LABEL_WIDTH = 13
_MIN_JUDGED = 32  # decoded tokens
# T(1) is a handful of passes timed at load, on machines whose speed wanders: closer to 1 than this says nothing.
_CLEARLY_SLOWER = 0.8
_CLEARLY_FASTER = 1.15
_STOPPED = {
    StopReason.END_OF_GENERATION: "the model ended its answer",
    StopReason.STOP_STRING: "a stop string came",
    StopReason.LENGTH: "the token limit (-n)",
    StopReason.CONTEXT: "the context is full (-c)",
    StopReason.CANCELLED: "Ctrl-C",
}


def statistics(result: GenerationResult, width: int) -> list[str]:
    """Lines of at most `width` characters (if that is at least 40), without a final newline."""
    rows = [("speed", _speed(result)), ("speculation", _speculation(result)), *_drafters(result)]
    rows += [("time", _time(result)), ("stopped", _stopped(result))]
    return [line for label, text in rows for line in _wrapped(label, text, width)]


def summary(result: GenerationResult) -> str:
    """One line for a turn of a chat."""
    timings, metrics = result.timings, result.metrics
    rate = timings.tokens_per_second
    parts = [f"{_count(len(result.tokens), 'token')}" + (f" at {rate:.1f}/s" if rate else "")]
    if metrics.drafted:
        parts.append(f"{metrics.accepted} of {metrics.drafted} drafted accepted")
    if speedup := _speedup(result):
        parts.append(f"{speedup:.2f}x plain")
    read = f"read {_count(timings.prompt_evaluated, 'new token')}"
    parts.append(read + (f" (draft {timings.draft_prompt_evaluated})" if result.is_active else ""))
    if result.stop_reason is not StopReason.END_OF_GENERATION:
        parts.append(f"stopped: {_STOPPED[result.stop_reason]}")
    return ", ".join(parts)


def _speed(result: GenerationResult) -> str:
    rate = result.timings.tokens_per_second
    if rate is None:
        return "too short to measure"
    speedup = _speedup(result)
    if speedup is None:
        return f"{rate:.1f} tokens/s"
    if speedup < _CLEARLY_SLOWER:
        return f"{rate:.1f} tokens/s, about {speedup:.2f}x of plain decoding: SLOWER than --plain would have been"
    if speedup < _CLEARLY_FASTER:
        return f"{rate:.1f} tokens/s, about as fast as plain decoding (estimated {speedup:.2f}x)"
    return f"{rate:.1f} tokens/s, about {speedup:.2f}x of plain decoding"


def _speedup(result: GenerationResult) -> float | None:
    """The estimate, where there is enough to judge by: a short answer is mostly luck."""
    timings = result.timings
    return timings.estimated_speedup if result.is_active and timings.decode_tokens >= _MIN_JUDGED else None


def _speculation(result: GenerationResult) -> str:
    metrics = result.metrics
    if not result.is_active:
        return f"off: {result.reason}"
    if metrics.acceptance_rate is None or metrics.block_efficiency is None:
        return f"nothing was drafted{': ' + result.reason if result.reason else ''}"
    rate = f"{metrics.accepted} of {_count(metrics.drafted, 'draft token')} accepted ({100 * metrics.acceptance_rate:.1f} %)"
    text = f"{rate}, {metrics.block_efficiency:.2f} tokens per target pass"
    return f"{text}; {result.reason}" if result.reason else text


def _drafters(result: GenerationResult) -> list[tuple[str, str]]:
    """A row for each drafter, where there are several."""
    parts = result.metrics.by_drafter
    if len(parts) < 2:
        return []
    return [(f"  {name}", f"{part.accepted} of {part.drafted} accepted") for name, part in parts.items()]


def _time(result: GenerationResult) -> str:
    timings = result.timings
    if not result.tokens:
        return f"{timings.prompt_evaluated} of {_count(timings.prompt_tokens, 'prompt token')} read in {_seconds(timings.prompt_ms)}"
    prompt = f"prompt {_seconds(timings.prompt_ms)} for {_count(timings.prompt_tokens, 'token')}"
    if timings.prompt_evaluated < timings.prompt_tokens:
        prompt += f" ({timings.prompt_evaluated} of them new)"
    steps = timings.draft_ms + timings.verify_ms + timings.host_ms
    text = f"{prompt}, then {_seconds(timings.decode_ms)}"
    if steps <= 0 or not timings.decode_tokens:
        return text
    shares = (("drafting", timings.draft_ms), ("target", timings.verify_ms), ("host", timings.host_ms))
    return f"{text}; {', '.join(f'{name} {100 * part / steps:.0f} %' for name, part in shares if result.is_active or name != 'drafting')}"


def _stopped(result: GenerationResult) -> str:
    why = _STOPPED[result.stop_reason]
    if result.stop_string is not None:
        why = f"the stop string {result.stop_string!r} came"
    return f"{why}, after {_count(len(result.tokens), 'token')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2f} s"


def _wrapped(label: str, text: str, width: int) -> list[str]:
    indent = " " * _LABEL_WIDTH
    return textwrap.wrap(text, max(width, 40), initial_indent=label.ljust(_LABEL_WIDTH), subsequent_indent=indent) or [label]
