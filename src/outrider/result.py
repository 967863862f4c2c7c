"""What a generation gave: text, tokens, times, and how speculation went; `document()` is the JSON contract of `run --json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outrider.metrics import RunMetrics
from outrider.types import EmittedToken, StopReason


@dataclass(frozen=True, slots=True)
class Timings:
    """Wall times of one generation, in milliseconds; loading is not part of them.

    Attributes:
        prompt_ms: from the request to the first emitted token: the prompt on the target and on the draft model.
        prompt_tokens: tokens of the prompt.
        prompt_evaluated: how many of them the target had to evaluate; the rest was in its cache.
        draft_prompt_evaluated: the same for the draft model.
        decode_ms: from the first emitted token to the last.
        decode_tokens: emitted tokens less the first.
        draft_ms, verify_ms, host_ms: how the steps split their time.
        total_ms: from the request to the end.
        plain_step_ms: T(1), a target pass over one row: the smaller of what was measured when the model was loaded and in
            this run's own plain passes; None if nothing could tell.
    """

    prompt_ms: float
    prompt_tokens: int
    prompt_evaluated: int
    draft_prompt_evaluated: int
    decode_ms: float
    decode_tokens: int
    draft_ms: float
    verify_ms: float
    host_ms: float
    total_ms: float
    plain_step_ms: float | None

    @property
    def tokens_per_second(self) -> float | None:
        """Decoded tokens by decode time; None when nothing was decoded after the first token."""
        return self.decode_tokens / self.decode_ms * 1e3 if self.decode_tokens and self.decode_ms > 0 else None

    @property
    def estimated_speedup(self) -> float | None:
        """decode_tokens · T(1) ÷ decode_ms: above 1 is faster than plain decoding would have been."""
        if not self.decode_tokens or self.decode_ms <= 0 or self.plain_step_ms is None:
            return None
        return self.decode_tokens * self.plain_step_ms / self.decode_ms


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """One finished generation.

    Attributes:
        text: what was shown.
        tokens: each emitted token.
        token_texts: the text of each; they concatenate to `text`.
        stop_reason: why it ended.
        stop_string: the stop string that was met, if one was.
        timings: wall times.
        metrics: counters of the steps, and the rates derived from them.
        is_active: whether speculation ran.
        reason: why it did not, or did not all the way; "" if there is nothing to say.
        is_bit_exact: whether the backend promises the very bytes of plain decoding.
        config: option name to {"value", "origin"}.
    """

    text: str
    tokens: list[EmittedToken]
    token_texts: list[str]
    stop_reason: StopReason
    stop_string: str | None
    timings: Timings
    metrics: RunMetrics
    is_active: bool
    reason: str
    is_bit_exact: bool
    config: dict[str, dict[str, Any]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The JSON document; every number is finite, what could not be measured is null."""
        return {
            "text": self.text,
            "tokens": [
                {"id": token.id, "text": text, "source": token.source, "kind": token.kind.value}
                for token, text in zip(self.tokens, self.token_texts, strict=True)
            ],
            "stop_reason": self.stop_reason.value,
            "stop_string": self.stop_string,
            "timings": self._timings(),
            "speculation": self._speculation(),
            "config": self.config,
        }

    def _timings(self) -> dict[str, Any]:
        timings = self.timings
        return {
            "prompt_ms": timings.prompt_ms,
            "prompt_tokens": timings.prompt_tokens,
            "prompt_evaluated": timings.prompt_evaluated,
            "draft_prompt_evaluated": timings.draft_prompt_evaluated,
            "decode_ms": timings.decode_ms,
            "decode_tokens": timings.decode_tokens,
            "tokens_per_second": timings.tokens_per_second,
            "draft_ms": timings.draft_ms,
            "verify_ms": timings.verify_ms,
            "host_ms": timings.host_ms,
            "total_ms": timings.total_ms,
            "plain_step_ms": timings.plain_step_ms,
        }

    def _speculation(self) -> dict[str, Any]:
        metrics = self.metrics
        return {
            "active": self.is_active,
            "reason": self.reason,
            "bit_exact": self.is_bit_exact,
            "steps": metrics.steps,
            "proposed": metrics.proposed,
            "drafted": metrics.drafted,
            "accepted": metrics.accepted,
            "acceptance_rate": metrics.acceptance_rate,
            "alpha": metrics.alpha,
            "block_efficiency": metrics.block_efficiency,
            "by_drafter": {name: _share(part.drafted, part.accepted, part.acceptance_rate) for name, part in metrics.by_drafter.items()},
            "by_position": [
                {"reached": part.reached, "accepted": part.accepted, "acceptance_rate": part.acceptance_rate}
                for part in metrics.by_position
            ],
            "accepted_lengths": list(metrics.accepted_lengths),
            "estimated_speedup": self.timings.estimated_speedup,
        }


def _share(drafted: int, accepted: int, rate: float | None) -> dict[str, Any]:
    return {"drafted": drafted, "accepted": accepted, "acceptance_rate": rate}
