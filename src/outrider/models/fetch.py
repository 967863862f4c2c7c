"""Fetches the segments of an offer, several at a time, and says how far it is."""

from __future__ import annotations

import shutil
from collections.abc import Sequence as Seq
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Final

from outrider.models.partial import PartialFile
from outrider.models.progress import Progress
from outrider.models.source import Offer, Segment, Source, StoppedError, Transfer

_TICK_S: Final = 0.2


def fetch(source: Source, offer: Offer, partial: PartialFile, progress: Progress) -> None:
    """Bring everything that is missing to `partial`.

    Raises:
        SourceError: a segment could not be had. What has arrived stays.
        OSError: the bytes could not be written.
    """
    wanted = [segment for segment in offer.segments if not _settled(segment, partial)]
    scratch = partial.final.with_name(partial.final.name + ".parts")
    shutil.rmtree(scratch, ignore_errors=True)  # whoever left it there is gone: we hold the lock
    if not wanted:
        return
    scratch.mkdir()
    transfer = Transfer(partial, scratch)
    progress.start(offer.n_bytes, _arrived(offer, transfer))
    try:
        with ThreadPoolExecutor(source.workers) as pool:
            futures = [pool.submit(_fetch_one, source, segment, transfer) for segment in wanted]
            try:
                _watch(futures, offer, transfer, progress)
            finally:
                transfer.stop.set()
                for future in futures:
                    future.cancel()
    finally:
        progress.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    _raise_first_failure(futures)
    progress.note("everything has arrived; checking")


def usable_bytes(offer: Offer, partial: PartialFile) -> int:
    """Bytes that the next pull will not fetch again."""
    sizes = [(segment, partial.covered(segment.start, segment.end)) for segment in offer.segments]
    return sum(n for segment, n in sizes if not segment.sha256 or n == segment.end - segment.start)


def _settled(segment: Segment, partial: PartialFile) -> bool:
    """Whether the segment is there already. Its sum decides where it has one: the bytes may be from another source."""
    if partial.missing(segment.start, segment.end):
        return False
    if not segment.sha256 or partial.sha256(segment.start, segment.end) == segment.sha256:
        return True
    partial.forget(segment.start, segment.end)
    return False


def _arrived(offer: Offer, transfer: Transfer) -> int:
    return sum(transfer.arrived(segment) for segment in offer.segments)


def _fetch_one(source: Source, segment: Segment, transfer: Transfer) -> None:
    is_done = False
    try:
        transfer.check_stop()
        source.fetch(segment, transfer)
        is_done = True
    finally:
        if not is_done:  # without this segment the others are of no use now: don't begin new ones
            transfer.stop.set()


def _watch(futures: Seq[Future[None]], offer: Offer, transfer: Transfer, progress: Progress) -> None:
    """Report until all are done or one has failed."""
    shown = 0
    pending = set(futures)
    while pending and not transfer.stop.is_set():
        _, pending = wait(pending, _TICK_S, FIRST_EXCEPTION)
        shown = max(shown, _arrived(offer, transfer))  # a part that is tried again must not make the bar jump back
        progress.update(shown)


def _raise_first_failure(futures: Seq[Future[None]]) -> None:
    """What went wrong, if anything did: segments that only ended because another one failed don't count."""
    for future in futures:
        error = None if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, StoppedError):
            raise error
