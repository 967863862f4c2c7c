from __future__ import annotations

import errno
import hashlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from outrider.errors import ChecksumError, DiskSpaceError, DownloadError
from outrider.models.lock import locked
from outrider.models.partial import PartialFile, arrived_bytes
from outrider.models.pull import Target, pull
from outrider.models.source import Offer, Segment, SourceError, Transfer
from tests.models.conftest import Recorder
from tests.models.noise import noise

CONTENT = noise(3, 10_000)
SUM = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)


@dataclass
class Shop:
    """A source in memory.

    Attributes:
        name: how messages call it.
        content: what it delivers.
        refusal: why it has nothing to offer.
        breaks_at: the segment that fails, by number.
        on_fetch: called before a segment is delivered.
    """

    name: str = "shop"
    content: bytes = CONTENT
    refusal: str = ""
    breaks_at: int | None = None
    sha256: str = SUM
    scratch_bytes: int = 0
    workers: int = 1
    on_fetch: Callable[[int], None] = lambda number: None
    fetched: list[int] = field(default_factory=list)

    def offer(self) -> Offer:
        if self.refusal:
            raise SourceError(self.refusal)
        size = len(self.content)
        segments = [Segment(start, min(start + 1000, size), f"bytes from {start}") for start in range(0, size, 1000)]
        return Offer(size, self.sha256, self.sha256 or "etag", segments, self.scratch_bytes)

    def fetch(self, segment: Segment, transfer: Transfer) -> None:
        number = segment.start // 1000
        self.on_fetch(number)
        if number == self.breaks_at:
            raise SourceError(f"{segment.label}: the line broke")
        self.fetched.append(number)
        transfer.partial.write(segment.start, self.content[segment.start : segment.end])


def target(directory: Path, *shops: Shop) -> Target:
    return Target("it", directory / "model.gguf", shops, SIZE, SUM)


def seen(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def test_the_first_source_that_answers_is_taken_and_the_line_says_why_not_the_others(tmp_path: Path, progress: Recorder) -> None:
    dead, good, spare = Shop("hub", refusal="it cannot be reached"), Shop("registry"), Shop("spare")
    pulled = pull(target(tmp_path, dead, good, spare), progress)
    assert (pulled.source, pulled.sha256, pulled.n_bytes) == ("registry", SUM, SIZE)
    assert progress.lines[:2] == ["not from the hub: it cannot be reached", "10 kB from the registry"]
    assert spare.fetched == []


def test_a_second_source_goes_on_where_the_first_one_broke(tmp_path: Path, progress: Recorder) -> None:
    first, second = Shop("hub", breaks_at=4), Shop("registry")
    assert pull(target(tmp_path, first, second), progress).source == "registry"
    assert (first.fetched, second.fetched) == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9])
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT


def test_when_all_fail_every_source_is_listed_with_its_reason(tmp_path: Path, progress: Recorder) -> None:
    with pytest.raises(DownloadError) as caught:
        pull(target(tmp_path, Shop("hub", refusal="Name not known"), Shop("registry", breaks_at=0)), progress)
    assert type(caught.value) is DownloadError
    assert caught.value.message == "no source delivered it: hub: Name not known; registry: bytes from 0: the line broke"
    assert str(tmp_path / "model.gguf") in caught.value.hint
    assert not (tmp_path / "model.gguf").exists()


def test_an_interrupted_pull_goes_on_with_the_next_one(tmp_path: Path, progress: Recorder) -> None:
    def interrupt(number: int) -> None:
        if number == 6:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pull(target(tmp_path, Shop(on_fetch=interrupt)), progress)
    kept = arrived_bytes(tmp_path / "model.gguf", SUM, SIZE)
    assert kept >= 6000
    assert progress.lines[-1].startswith(f"stopped; {kept // 1000} kB of 10 kB are kept, and the same command goes on")
    assert progress.stops == 1
    rest = Shop()
    pull(target(tmp_path, rest), progress)
    assert len(rest.fetched) == (SIZE - kept) // 1000
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT


def test_an_interruption_before_the_first_byte_says_so(tmp_path: Path, progress: Recorder) -> None:
    stopped = threading.Event()

    def interrupt(number: int) -> None:
        if not stopped.is_set():
            stopped.set()
            signal.raise_signal(signal.SIGINT)
            raise SourceError("too late")

    with pytest.raises(KeyboardInterrupt):
        pull(target(tmp_path, Shop(on_fetch=interrupt)), progress)
    assert progress.lines[-1] == "stopped; nothing to keep yet"


def test_wrong_content_is_removed_and_the_next_source_asked(tmp_path: Path, progress: Recorder) -> None:
    liar, good = Shop("liar", content=bytes(SIZE)), Shop("registry")
    assert pull(target(tmp_path, liar, good), progress).source == "registry"
    assert len(good.fetched) == 10
    assert seen(tmp_path) == ["model.gguf"]


def test_wrong_content_from_everyone_is_a_checksum_error(tmp_path: Path, progress: Recorder) -> None:
    with pytest.raises(ChecksumError, match=f"expected sha256 {SUM}, found {hashlib.sha256(bytes(SIZE)).hexdigest()}"):
        pull(target(tmp_path, Shop(content=bytes(SIZE)), Shop("hub", refusal="down")), progress)
    assert seen(tmp_path) == []


@pytest.mark.parametrize(
    ("shop", "reason"),
    [
        (Shop(content=CONTENT + b"!"), "it offers another file: 10001 bytes, expected 10000"),
        (Shop(sha256="f" * 64), f"it offers another file: sha256 {'f' * 64}, expected {SUM}"),
    ],
)
def test_an_offer_of_another_file_is_refused_before_a_byte_is_fetched(tmp_path: Path, progress: Recorder, shop: Shop, reason: str) -> None:
    with pytest.raises(DownloadError, match=reason):
        pull(target(tmp_path, shop), progress)
    assert shop.fetched == []


def test_a_sound_file_is_not_fetched_again(tmp_path: Path, progress: Recorder) -> None:
    (tmp_path / "model.gguf").write_bytes(CONTENT)
    shop = Shop()
    pulled = pull(target(tmp_path, shop), progress)
    assert (pulled.source, pulled.checked, shop.fetched) == (None, True, [])


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[:-1] + b"!", b""])
def test_a_damaged_file_is_replaced(tmp_path: Path, progress: Recorder, content: bytes) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    assert pull(target(tmp_path, Shop()), progress).source == "shop"
    assert (tmp_path / "model.gguf").read_bytes() == CONTENT
    assert "it will be replaced" in progress.text


def test_a_damaged_file_stays_until_the_right_one_is_here(tmp_path: Path, progress: Recorder) -> None:
    (tmp_path / "model.gguf").write_bytes(b"old")
    with pytest.raises(DownloadError):
        pull(target(tmp_path, Shop(breaks_at=9)), progress)
    assert (tmp_path / "model.gguf").read_bytes() == b"old"


def test_a_file_whose_sum_nobody_knew_beforehand_is_kept_when_no_source_answers(tmp_path: Path, progress: Recorder) -> None:
    (tmp_path / "model.gguf").write_bytes(CONTENT)
    offline = Target("it", tmp_path / "model.gguf", [Shop(refusal="down")])
    assert (pull(offline, progress).source, pull(offline, progress).checked) == (None, False)
    online = Target("it", tmp_path / "model.gguf", [Shop()])
    assert pull(online, progress).checked
    assert "keeping" in progress.text


class TestRoom:
    def test_too_little_room_is_found_before_anything_is_written(self, tmp_path: Path, progress: Recorder) -> None:
        shop = Shop(scratch_bytes=5000)
        with pytest.raises(DiskSpaceError, match=r"it needs 15 kB, 5 kB of it for temporary files, but .* has only 15 kB free"):
            pull(target(tmp_path / "models", shop), progress, free_bytes=lambda directory: SIZE + 4999)
        assert not (tmp_path / "models").exists()
        assert shop.fetched == []

    def test_just_enough_room_is_enough(self, tmp_path: Path, progress: Recorder) -> None:
        assert pull(target(tmp_path, Shop(scratch_bytes=5000)), progress, free_bytes=lambda directory: SIZE + 5000).source == "shop"

    def test_bytes_that_are_there_need_no_room(self, tmp_path: Path, progress: Recorder) -> None:
        with pytest.raises(DownloadError):
            pull(target(tmp_path, Shop(breaks_at=7)), progress)
        assert pull(target(tmp_path, Shop()), progress, free_bytes=lambda directory: 3000).source == "shop"

    def test_a_disk_that_fills_up_meanwhile_keeps_what_arrived(
        self, tmp_path: Path, progress: Recorder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = PartialFile.write

        def full(partial: PartialFile, offset: int, data: bytes) -> None:
            if offset == 5000:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(partial, offset, data)

        monkeypatch.setattr(PartialFile, "write", full)
        with pytest.raises(DiskSpaceError, match="filled up while it arrived"):
            pull(target(tmp_path, Shop()), progress)
        assert arrived_bytes(tmp_path / "model.gguf", SUM, SIZE) == 5000


class TestDirectory:
    @pytest.fixture
    def read_only(self) -> Iterator[Path]:
        """A directory that this process may not write: root, who may write everywhere, becomes somebody else for the test."""
        with tempfile.TemporaryDirectory() as base:
            directory = Path(base) / "models"
            directory.mkdir()
            directory.chmod(0o555)
            Path(base).chmod(0o755)
            user = os.geteuid()
            if user == 0:
                os.seteuid(65534)
            try:
                yield directory
            finally:
                os.seteuid(user)
                directory.chmod(0o755)

    def test_a_read_only_directory_is_named(self, read_only: Path, progress: Recorder) -> None:
        with pytest.raises(DownloadError, match=f"cannot be written to {read_only}: Permission denied") as caught:
            pull(target(read_only, Shop()), progress)
        assert "OUTRIDER_MODELS_DIR" in caught.value.hint

    def test_a_directory_that_cannot_be_made_is_named(self, read_only: Path, progress: Recorder) -> None:
        with pytest.raises(DownloadError, match="Permission denied"):
            pull(target(read_only / "deeper", Shop()), progress)

    def test_a_file_in_the_way_is_named(self, tmp_path: Path, progress: Recorder) -> None:
        (tmp_path / "models").write_text("")
        with pytest.raises(DownloadError, match=r"cannot be written to .*/models"):
            pull(target(tmp_path / "models", Shop()), progress)

    def test_what_a_killed_pull_left_is_cleared_away(self, tmp_path: Path, progress: Recorder) -> None:
        (tmp_path / "model.gguf.parts" / "tmpabc").mkdir(parents=True)
        pull(target(tmp_path, Shop()), progress)
        assert seen(tmp_path) == ["model.gguf"]


def test_a_second_pull_waits_for_the_first_and_finds_its_file(tmp_path: Path, progress: Recorder) -> None:
    entered, waiting = threading.Event(), threading.Event()
    second_progress = Recorder()

    def hold(number: int) -> None:
        entered.set()
        waiting.wait(10)

    first, second = Shop(on_fetch=hold), Shop()
    results: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: results.append(pull(target(tmp_path, first), progress).source)),
        threading.Thread(target=lambda: results.append(pull(target(tmp_path, second), second_progress).source)),
    ]
    threads[0].start()
    entered.wait(10)
    threads[1].start()
    while not second_progress.lines:
        threads[1].join(0.01)
    waiting.set()
    for thread in threads:
        thread.join()
    assert second_progress.lines[0] == "another process is pulling it; waiting"
    assert (results, second.fetched) == (["shop", None], [])


def test_a_lock_is_free_again_after_its_holder_failed(tmp_path: Path, progress: Recorder) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), locked(tmp_path / "model.gguf", progress):
        raise RuntimeError("on purpose")
    with locked(tmp_path / "model.gguf", progress):
        assert progress.lines == []
