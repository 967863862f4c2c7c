"""Pulls one file: sources in order, room first, one writer at a time, nothing under the final name but the right file."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outrider.errors import ChecksumError, DiskSpaceError, DownloadError
from outrider.models import store
from outrider.models.fetch import fetch, usable_bytes
from outrider.models.lock import locked
from outrider.models.partial import PartialFile, arrived_bytes
from outrider.models.progress import Progress
from outrider.models.source import Offer, Source, SourceError, WrongDataError
from outrider.models.store import DIRECTORY_VARIABLE, FreeBytes, size_text

_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Target:
    """What to pull.

    Attributes:
        name: how messages call it.
        file: where it ends up.
        sources: tried in order.
        n_bytes, sha256: what the file must be, where that is known beforehand; else the source's word counts.
    """

    name: str
    file: Path
    sources: Seq[Source]
    n_bytes: int | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A file that is there and sound.

    Attributes:
        name, path: as in the target.
        n_bytes: its length.
        sha256: its sum; "" if it was kept without a check.
        checked: whether the sum was compared with one that somebody gave.
        source: where it came from; None if it was there already.
        seconds: what the pull took.
    """

    name: str
    path: Path
    n_bytes: int
    sha256: str
    checked: bool
    source: str | None
    seconds: float


def pull(target: Target, progress: Progress, free_bytes: FreeBytes = store.free_bytes) -> Pulled:
    """Make the target's file be there: checked, downloaded, or taken up where an earlier pull stopped.

    Raises:
        DiskSpaceError: there is no room; nothing was written, or what had arrived is kept.
        ChecksumError: a source delivered something else than promised, and no other one helped; the bad data is removed.
        DownloadError: no source delivered; the message names each one and why. Or the directory cannot be written.
        KeyboardInterrupt: passed on, after a line that says what is kept.
    """
    started_s = time.monotonic()
    try:
        if target.sha256 and (found := _sound(target, target.n_bytes, target.sha256, progress)):
            return _pulled(target, found, True, None, started_s)
        return _pull_from_any(target, progress, free_bytes, started_s)
    except OSError as error:
        raise _unwritable(target, error) from error


def _pull_from_any(target: Target, progress: Progress, free_bytes: FreeBytes, started_s: float) -> Pulled:
    failures: list[tuple[str, SourceError]] = []
    for source in target.sources:
        try:
            return _pull_from(source, target, progress, free_bytes, started_s)
        except SourceError as failure:
            failures.append((source.name, failure))
            progress.note(f"not from the {source.name}: {failure}")
    if not target.sha256 and target.file.is_file():
        progress.note(f"keeping {target.file}, which was there before")
        return _pulled(target, "", False, None, started_s)
    raise _exhausted(target, failures)


def _pull_from(source: Source, target: Target, progress: Progress, free_bytes: FreeBytes, started_s: float) -> Pulled:
    offer = _promised(source.offer(), target)
    _check_room(offer, target, free_bytes)
    with locked(target.file, progress):
        if found := _sound(target, offer.n_bytes, offer.sha256, progress):
            return _pulled(target, found, bool(offer.sha256), None, started_s)
        with PartialFile(target.file, offer.identity, offer.n_bytes) as partial:
            _announce(source, offer, partial, progress)
            try:
                fetch(source, offer, partial, progress)
            except KeyboardInterrupt:
                _say_kept(offer, partial, progress)
                raise
            found = partial.finish(offer.sha256)
    if offer.sha256 and found != offer.sha256:
        raise WrongDataError("the whole file", offer.sha256, found)
    if not offer.sha256:
        progress.note(f"nobody gave a checksum to compare with; sha256 is {found}")
    return _pulled(target, found, bool(offer.sha256), source.name, started_s)


def _promised(offer: Offer, target: Target) -> Offer:
    """The offer, if it is of the file that is wanted."""
    if target.n_bytes is not None and offer.n_bytes != target.n_bytes:
        raise SourceError(f"it offers another file: {offer.n_bytes} bytes, expected {target.n_bytes}")
    if not target.sha256:
        return offer
    if offer.sha256 and offer.sha256 != target.sha256:
        raise SourceError(f"it offers another file: sha256 {offer.sha256}, expected {target.sha256}")
    # one identity whatever the source calls it, so that a second source continues what a first one began
    return Offer(offer.n_bytes, target.sha256, target.sha256, offer.segments, offer.scratch_bytes)


def _sound(target: Target, n_bytes: int | None, sha256: str, progress: Progress) -> str:
    """The sum of the file under the final name if it is the right one; "" if it is not there or not right.

    Without a sum to compare with, a file of the right length is taken for the right one.
    """
    if not target.file.is_file():
        return ""
    size = target.file.stat().st_size
    if n_bytes is not None and size != n_bytes:
        progress.note(f"{target.file} has {size} bytes, expected {n_bytes}: it will be replaced")
        return ""
    found = store.sha256_of(target.file)
    if sha256 and found != sha256:
        progress.note(f"{target.file} has the wrong checksum: it will be replaced")
        return ""
    return found


def _check_room(offer: Offer, target: Target, free_bytes: FreeBytes) -> None:
    missing = offer.n_bytes - arrived_bytes(target.file, offer.identity, offer.n_bytes)
    needed = missing + (offer.scratch_bytes if missing else 0)
    free = free_bytes(target.file.parent)
    if free >= needed:
        return
    temporary = f", {size_text(offer.scratch_bytes)} of it for temporary files" if offer.scratch_bytes else ""
    raise DiskSpaceError(
        f"{target.name} needs {size_text(needed)}{temporary}, but {target.file.parent} has only {size_text(free)} free",
        f"free some space, or set {DIRECTORY_VARIABLE} to a directory on another disk",
    )


def _announce(source: Source, offer: Offer, partial: PartialFile, progress: Progress) -> None:
    kept = usable_bytes(offer, partial)
    going_on = f", going on from {size_text(kept)}" if kept else ""
    progress.note(f"{size_text(offer.n_bytes)} from the {source.name}{going_on}")


def _say_kept(offer: Offer, partial: PartialFile, progress: Progress) -> None:
    kept = usable_bytes(offer, partial)
    share = f"{size_text(kept)} of {size_text(offer.n_bytes)}"
    progress.note(f"stopped; {share} are kept, and the same command goes on from there" if kept else "stopped; nothing to keep yet")


def _pulled(target: Target, sha256: str, checked: bool, source: str | None, started_s: float) -> Pulled:
    n_bytes = target.file.stat().st_size
    return Pulled(target.name, target.file, n_bytes, sha256, checked, source, time.monotonic() - started_s)


def _unwritable(target: Target, error: OSError) -> DownloadError:
    directory = target.file.parent
    elsewhere = f"set {DIRECTORY_VARIABLE} to a directory that you can write"
    if error.errno in _DISK_FULL:
        hint = f"free some space and run the command again: what has arrived is kept; or {elsewhere}"
        return DiskSpaceError(f"the disk of {directory} filled up while {target.name} arrived", hint)
    return DownloadError(f"{target.name} cannot be written to {directory}: {error.strerror or error}", elsewhere)


def _exhausted(target: Target, failures: Seq[tuple[str, SourceError]]) -> DownloadError:
    reasons = "; ".join(f"{name}: {failure}" for name, failure in failures)
    if any(isinstance(failure, WrongDataError) for _, failure in failures):
        hint = "the bad data is removed; run the command again, and if it stays so, look for a proxy or mirror that alters files"
        return ChecksumError(f"{target.name} did not arrive as promised: {reasons}", hint)
    hint = f"check the network and run the command again (what has arrived is kept), or put the file at {target.file} yourself"
    return DownloadError(f"no source delivered {target.name}: {reasons}", hint)
