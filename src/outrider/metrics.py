"""What a generation did and cost: counters in, rates derived. Names as in theory.py and docs/glossary.md."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median

from outrider.errors import EngineError
from outrider.policy.policy import StepRecord
from outrider.types import Draft


def ratio(part: float, whole: float) -> float | None:
    """The quotient; None where there is nothing to divide by."""
    return part / whole if whole else None


@dataclass(slots=True)
class DrafterMetrics:
    """Tokens of one drafter that were sent to the target, and how many of them were emitted."""

    drafted: int = 0
    accepted: int = 0

    @property
    def acceptance_rate(self) -> float | None:
        """Emitted share of the drafted tokens; None without drafts."""
        return ratio(self.accepted, self.drafted)


@dataclass(slots=True)
class PositionMetrics:
    """Steps that reached one depth of their draft, and how many of them accepted a token there."""

    reached: int = 0
    accepted: int = 0

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the steps that got here; None if the depth was never reached."""
        return ratio(self.accepted, self.reached)


@dataclass(slots=True)
class RunMetrics:
    """Counters of one generation. For several, keep one each: their steps share passes, so their times don't add up.

    Attributes:
        steps: target passes.
        emitted: tokens of the output.
        proposed: tokens that drafters proposed, before the policy selected.
        drafted: tokens that were sent to the target.
        accepted: draft tokens that were emitted. What was verified and then cut (an end token, a stop string, the budget)
            does not count.
        refused: draft tokens that were reached and refused; after a cut, only those with everything before them emitted.
        cut: steps whose own target token was cut off; at most the last one, so emitted = accepted + steps - cut.
        drafted_steps: steps with a draft.
        accepted_lengths: how many drafted steps had exactly i draft tokens accepted, by i.
        by_position: acceptance by depth in the draft, first token first.
        by_drafter: drafted and accepted by source.
        draft_ms, verify_ms, host_ms: where the steps' time went.
    """

    steps: int = 0
    emitted: int = 0
    proposed: int = 0
    drafted: int = 0
    accepted: int = 0
    refused: int = 0
    cut: int = 0
    drafted_steps: int = 0
    accepted_lengths: list[int] = field(default_factory=list)
    by_position: list[PositionMetrics] = field(default_factory=list)
    by_drafter: dict[str, DrafterMetrics] = field(default_factory=dict)
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    host_ms: float = 0.0
    _pass_ms: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, record: StepRecord) -> None:
        """Count one step.

        Raises:
            EngineError: the record contradicts itself: more accepted than were verified, or a lost token.
        """
        n_accepted, draft = record.n_accepted, record.draft
        if not 0 <= n_accepted <= len(record.verification.path) or record.n_emitted - n_accepted not in (0, 1):
            raise EngineError(
                f"a step emitted {record.n_emitted} tokens, {n_accepted} of them from a draft with {len(record.verification.path)} kept",
                "this is a bug in the engine",
            )
        self.steps += 1
        self.emitted += record.n_emitted
        self.proposed += record.n_proposed
        self.drafted += len(draft)
        self.accepted += n_accepted
        self.cut += record.n_emitted == n_accepted
        self._add_times(record)
        if len(draft):
            self.drafted_steps += 1
            self.accepted_lengths += [0] * (n_accepted + 1 - len(self.accepted_lengths))
            self.accepted_lengths[n_accepted] += 1
            self._add_sources(record)
            self._add_positions(record)

    # ------------------------------------------------------------------ rates

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens that was emitted; None without drafts. Falls with the draft length; `alpha` does not."""
        return ratio(self.accepted, self.drafted)

    @property
    def alpha(self) -> float | None:
        """Acceptance of a draft token given that it was reached: accepted / (accepted + refused); None without drafts."""
        return ratio(self.accepted, self.accepted + self.refused)

    @property
    def block_efficiency(self) -> float | None:
        """Tokens per target pass: the draft's that were emitted and the target's own. 1 for plain decoding, and never less.

        The token at which the last step was cut counts, an end token above all: its pass found it. None before the first step.
        """
        return ratio(self.emitted + self.cut, self.steps)

    @property
    def measured_plain_pass_ms(self) -> float | None:
        """T(1), as the median of this run's passes over one row, the first step left out; None if there were none."""
        plain = self._pass_ms.get(1)
        return median(plain) if plain else None

    @property
    def plain_pass_ms(self) -> float | None:
        """T(1), in this run: the median of its passes without a draft, the first step (it ends the prompt) left out.

        Without such passes it is the least-squares line through the medians of each width, read at one row; None if there
        were fewer than two widths, or their line makes no sense (it falls with the width, or a pass would be free).
        """
        measured = self.measured_plain_pass_ms
        if measured is not None:
            return measured
        return _line_at_one({rows: (median(times), len(times)) for rows, times in self._pass_ms.items()})

    # ------------------------------------------------------------------ counting

    def _add_times(self, record: StepRecord) -> None:
        self.draft_ms += record.draft_ms
        self.verify_ms += record.verify_ms
        self.host_ms += record.host_ms
        if self.steps > 1:
            self._pass_ms[1 + len(record.draft)].append(record.verify_ms)

    def _add_sources(self, record: StepRecord) -> None:
        for source in record.draft.sources:
            self.by_drafter.setdefault(source, DrafterMetrics()).drafted += 1
        for node in record.verification.path[: record.n_accepted]:
            self.by_drafter[record.draft.sources[node]].accepted += 1

    def _add_positions(self, record: StepRecord) -> None:
        n_accepted = record.n_accepted
        depths = [_depth(record.draft, node) for node in record.verification.refused]
        depths = [depth for depth in depths if depth <= n_accepted]  # what lies behind the cut never became text
        self.refused += len(depths)
        n_reached = max([n_accepted, *(depth + 1 for depth in depths)])
        self.by_position += [PositionMetrics() for _ in range(n_reached - len(self.by_position))]
        for depth in range(n_reached):
            self.by_position[depth].reached += 1
            self.by_position[depth].accepted += depth < n_accepted


def _depth(draft: Draft, node: int) -> int:
    return len(draft.path(node)) - 1


def _line_at_one(medians: dict[int, tuple[float, int]]) -> float | None:
    """The value at 1 of the line through {x: (y, weight)}, least squares."""
    weight = sum(count for _, count in medians.values())
    if len(medians) < 2:
        return None
    mean_x = sum(x * count for x, (_, count) in medians.items()) / weight
    mean_y = sum(y * count for y, count in medians.values()) / weight
    spread = sum(count * (x - mean_x) ** 2 for x, (_, count) in medians.items())
    slope = sum(count * (x - mean_x) * (y - mean_y) for x, (y, count) in medians.items()) / spread
    value = mean_y + slope * (1 - mean_x)
    return value if slope >= 0 < value else None
