"""The first source: a file on the Hugging Face hub, in ranges over a few connections.

HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the proxy and certificate settings mean what they mean to huggingface_hub.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeVar

import httpx2
from huggingface_hub import constants, get_hf_file_metadata, get_session, get_token, hf_hub_url
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, OfflineModeIsEnabled

from outrider.models.catalogue import HubFile
from outrider.models.source import Offer, Segment, SourceError, Transfer, TransientError

SEGMENT_BYTES: Final = 64 << 20
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a hub.

    Attributes:
        answer_s: for each step of the first answer (connect, first byte).
        offer_s: for the first answers altogether, name look-up included.
        read_s: for the next bytes of a running download.
        attempts: tries without a new byte before a segment is given up; at least 1.
        pause_s: before the second try, twice that before the third, and so on.
    """

    answer_s: float = 2.0
    offer_s: float = 6.0
    read_s: float = 5.0
    attempts: int = 4
    pause_s: float = 0.5


class HubSource:
    """One file of one repository.

    Args:
        file: which one.
        patience: time-outs and retries.
        workers: connections at a time.
        segment_bytes: bytes asked for in one request.
    """

    name = "Hugging Face hub"

    def __init__(self, file: HubFile, patience: Patience | None = None, *, workers: int = 4, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.workers = workers
        self._file = file
        self._patience = patience or Patience()
        self._segment_bytes = segment_bytes
        self._n_bytes = 0

    def offer(self) -> Offer:
        """Ask the hub for length and sum, and try one byte: the server behind the hub must answer too."""
        offer = _within(self._patience.offer_s, self._ask)
        self._n_bytes = offer.n_bytes
        return offer

    def fetch(self, segment: Segment, transfer: Transfer) -> None:
        """Read what is missing; a broken connection is taken up again where it broke."""
        attempt = 1
        while gaps := transfer.partial.missing(segment.start, segment.end):
            before = transfer.partial.covered(segment.start, segment.end)
            try:
                self._read(gaps[0], segment.end == self._n_bytes and segment.start == 0, transfer)
            except TransientError as error:
                attempt = 1 if transfer.partial.covered(segment.start, segment.end) > before else attempt + 1
                if attempt > self._patience.attempts:
                    raise SourceError(f"{segment.label}: {error}") from error
                transfer.stop.wait(self._patience.pause_s * 2 ** (attempt - 1))
            transfer.check_stop()

    def _ask(self) -> Offer:
        try:
            metadata = get_hf_file_metadata(self._url(), token=_token() or False, timeout=self._patience.answer_s, library_name="outrider")
            if not metadata.size:
                raise SourceError(f"the hub does not say how long {self._file} is")
            ranges = self._accepts_ranges()
        except GatedRepoError as error:
            raise SourceError(f"{self._file} is gated: accept its terms on the hub and set HF_TOKEN") from error
        except HfHubHTTPError as error:
            raise SourceError(self._refusal(error.response.status_code)) from error
        except OfflineModeIsEnabled as error:
            raise SourceError("HF_HUB_OFFLINE is set") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise SourceError(_plain(error)) from error
        etag = metadata.etag or ""
        step = self._segment_bytes if ranges else metadata.size
        segments = [Segment(start, min(start + step, metadata.size), f"bytes from {start}") for start in range(0, metadata.size, step)]
        return Offer(metadata.size, etag if _SHA256.fullmatch(etag) else "", etag or f"{self._file} {metadata.size}", segments)

    def _accepts_ranges(self) -> bool:
        with self._get(0, 1, self._patience.answer_s) as response:
            if response.status_code >= 400:
                raise SourceError(self._refusal(response.status_code))
            return response.status_code == 206

    def _read(self, gap: tuple[int, int], whole: bool, transfer: Transfer) -> None:
        start, end = gap
        try:
            with self._get(start, end, self._patience.read_s) as response:
                position = self._first_byte(response, start, whole)
                for block in response.iter_raw():
                    transfer.check_stop()
                    wanted = block[max(start - position, 0) : max(end - position, 0)]
                    transfer.partial.write(max(position, start), wanted)
                    position += len(block)
                    if position >= end:
                        break
        except httpx2.HTTPError as error:
            raise TransientError(_plain(error)) from error
        if position < end:
            raise TransientError("the connection ended early")

    def _first_byte(self, response: httpx2.Response, start: int, whole: bool) -> int:
        """Position in the file of the first byte of the body."""
        status = response.status_code
        if status in (408, 429) or status >= 500:
            raise TransientError(f"the hub answered {status}")
        if status == 200 and whole:
            return 0  # no ranges here: skip what has arrived already
        if status != 206:
            raise SourceError(self._refusal(status))
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
        if span is None or (int(span[1]), int(span[2])) != (start, self._n_bytes):
            raise SourceError(f"{self._file} changed on the hub while it was read")
        return start

    def _get(self, start: int, end: int, read_s: float) -> AbstractContextManager[httpx2.Response]:
        headers = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity", "User-Agent": "outrider"}
        if token := _token():
            headers["Authorization"] = f"Bearer {token}"
        timeout = httpx2.Timeout(read_s, connect=self._patience.answer_s)
        return get_session().stream("GET", self._url(), headers=headers, timeout=timeout, follow_redirects=True)

    def _url(self) -> str:
        endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
        return hf_hub_url(self._file.repository, self._file.file, revision=self._file.revision, endpoint=endpoint)

    def _refusal(self, status: int) -> str:
        if status in (401, 403, 404):
            return f"there is no {self._file} there, or it is private (then set HF_TOKEN)"
        return f"the hub answered {status}"


def _token() -> str | None:
    """The user's own token, unless the user asked not to send it by itself."""
    return None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()


def _plain(error: Exception) -> str:
    """What went wrong on the network, in one line."""
    if isinstance(error, httpx2.TimeoutException):
        return "it did not answer in time"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = re.sub(r"^\[Errno -?\d+\] ", "", lines[0])
    return f"it cannot be reached ({text})" if isinstance(error, httpx2.ConnectError) else text


def _within(seconds: float, call: Callable[[], Result]) -> Result:
    """The call's result. A call that takes longer is left behind on its own thread: name look-ups have no time-out."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  # raised again below, on the thread that waits
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError as error:
        raise SourceError(f"it did not answer within {seconds:g} s") from error
