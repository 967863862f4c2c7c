"""The port of a place that model files come from."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

from outrider.models.partial import PartialFile


class SourceError(Exception):
    """A source cannot deliver; the next one is tried. `str` is the reason, one line without a full stop."""


class TransientError(SourceError):
    """A failure that may be gone at the next try: a broken connection, a cut archive."""


class WrongDataError(SourceError):
    """What a source delivered is not what was promised.

    Args:
        what: the file or part.
        expected, found: SHA-256, lower-case hex.
    """

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"wrong checksum of {what}: expected sha256 {expected}, found {found}")
        self.expected = expected
        self.found = found


class StoppedError(Exception):
    """A fetch ended early because somebody asked for it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes [start, end) of the file, fetched in one go.

    Attributes:
        label: what messages call it.
        sha256: of these bytes; "" if only the whole file can be checked. A segment with a sum is kept whole or not at
            all, one without is taken up again wherever it broke off.
    """

    start: int
    end: int
    label: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a source is ready to deliver.

    Attributes:
        n_bytes: length of the file.
        sha256: its sum; "" if the source does not know.
        identity: names the exact content: two offers with the same identity can continue each other.
        segments: they cover the file without overlap.
        scratch_bytes: room for temporary files beside the file itself, at most.
    """

    n_bytes: int
    sha256: str
    identity: str
    segments: Seq[Segment]
    scratch_bytes: int = 0


@dataclass(slots=True)
class Transfer:
    """What a fetch works with.

    Attributes:
        partial: where the bytes go.
        scratch: a directory for temporary files; emptied before and after.
        stop: when it is set, every fetch raises StoppedError soon.
        on_the_way: bytes of a segment, by its start, that are here but not yet in `partial`.
    """

    partial: PartialFile
    scratch: Path
    stop: Event = field(default_factory=Event)
    on_the_way: dict[int, int] = field(default_factory=dict)

    def check_stop(self) -> None:
        """Raises StoppedError when the fetch is to end."""
        if self.stop.is_set():
            raise StoppedError

    def arrived(self, segment: Segment) -> int:
        """Bytes of the segment that are here, for progress."""
        return max(self.partial.covered(segment.start, segment.end), self.on_the_way.get(segment.start, 0))


class Source(Protocol):
    """A place that model files come from. `fetch` is called from several threads at once, one segment each."""

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def workers(self) -> int:
        """How many segments to fetch at a time."""
        ...

    def offer(self) -> Offer:
        """Find out whether the file is to be had, and what is known about it. Raises SourceError if it is not."""
        ...

    def fetch(self, segment: Segment, transfer: Transfer) -> None:
        """Bring the missing bytes of a segment to `transfer.partial`.

        Raises:
            SourceError: it cannot be had; WrongDataError if what came is not what was promised.
            StoppedError: `transfer.stop` was set.
            OSError: the bytes could not be written.
        """
        ...
