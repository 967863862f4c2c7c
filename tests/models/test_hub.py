from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
from pathlib import Path

import pytest

from outrider.errors import ChecksumError, DownloadError
from outrider.models.catalogue import HubFile
from outrider.models.hub import HubSource, Patience
from outrider.models.partial import arrived_bytes
from outrider.models.pull import Pulled, Target, pull
from outrider.models.source import SourceError
from tests.models.conftest import Recorder
from tests.models.fake_hub import FakeHub
from tests.models.noise import noise

CONTENT = noise(1, 300_000)
SUM = hashlib.sha256(CONTENT).hexdigest()
FILE = HubFile("owner/repo", "folder/model.gguf")
QUICK = Patience(answer_s=5.0, offer_s=10.0, read_s=5.0, attempts=3, pause_s=0.0)


def source(patience: Patience = QUICK, **more: int) -> HubSource:
    return HubSource(FILE, patience, **{"segment_bytes": 64_000, **more})


def fetch(directory: Path, progress: Recorder, hub_source: HubSource | None = None) -> Pulled:
    return pull(Target("it", directory / "model.gguf", [hub_source or source()]), progress)


@pytest.fixture(autouse=True)
def _content(hub: FakeHub) -> None:
    hub.put("owner/repo/folder/model.gguf", CONTENT)


def test_a_file_arrives_in_ranges_with_the_sum_that_the_hub_states(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    pulled = fetch(tmp_path, progress)
    assert pulled.path.read_bytes() == CONTENT
    assert (pulled.source, pulled.sha256, pulled.checked) == ("Hugging Face hub", SUM, True)
    assert len(hub.downloads()) == 5  # 300,000 bytes in ranges of 64,000
    assert progress.updates[-1] == progress.totals[0] == 300_000
    assert progress.updates == sorted(progress.updates)


def test_a_server_without_ranges_sends_the_whole_file_once(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.ranges = False
    assert fetch(tmp_path, progress).path.read_bytes() == CONTENT
    assert len(hub.downloads()) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_connection_is_taken_up_again(hub: FakeHub, tmp_path: Path, progress: Recorder, ranges: bool) -> None:
    hub.ranges, hub.cuts = ranges, 2
    assert fetch(tmp_path, progress, source(workers=1)).path.read_bytes() == CONTENT


def test_only_what_is_missing_is_asked_again_after_a_cut(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.cuts = 1
    fetch(tmp_path, progress, source(workers=1))
    first, second = hub.downloads()[:2]
    assert first == "bytes=0-63999"
    start = int(second.removeprefix("bytes=").split("-")[0])
    assert 0 < start <= 32_000


def test_a_server_error_in_between_is_tried_again(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.cdn_failures = 2
    assert fetch(tmp_path, progress, source(workers=1)).path.read_bytes() == CONTENT


def test_a_server_that_goes_on_failing_is_given_up_and_what_arrived_is_kept(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.allowance = 100_000
    with pytest.raises(DownloadError, match="Hugging Face hub: bytes from 64000: "):
        fetch(tmp_path, progress, source(workers=1))
    kept = arrived_bytes(tmp_path / "model.gguf", SUM, len(CONTENT))
    assert kept == 100_000
    assert len(hub.downloads()) == 2 + QUICK.attempts
    hub.allowance = None
    before = len(hub.downloads())
    assert fetch(tmp_path, progress, source(workers=1)).path.read_bytes() == CONTENT
    asked = [span.removeprefix("bytes=").split("-") for span in hub.downloads()[before:]]
    assert sum(int(end) + 1 - int(start) for start, end in asked) == len(CONTENT) - kept
    assert "going on from" in progress.text


def test_a_download_that_stalls_is_given_up(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.allowance, hub.hold = 100_000, threading.Event()
    impatient = dataclasses.replace(QUICK, read_s=1.0, attempts=1)
    with pytest.raises(DownloadError, match="bytes from 64000: it did not answer in time"):
        fetch(tmp_path, progress, source(impatient, workers=1))
    hub.hold.set()
    assert arrived_bytes(tmp_path / "model.gguf", SUM, len(CONTENT)) == 100_000


def test_wrong_bytes_never_get_the_final_name(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.served = CONTENT[:-1] + b"!"
    found = hashlib.sha256(hub.served).hexdigest()
    with pytest.raises(ChecksumError, match=f"expected sha256 {SUM}, found {found}"):
        fetch(tmp_path, progress)
    assert [path.name for path in tmp_path.iterdir() if "gguf" in path.name and not path.name.startswith(".")] == []


def test_a_file_that_changes_while_it_is_read_is_refused(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.served = CONTENT + b"more"
    with pytest.raises(DownloadError, match=r"hf:owner/repo/folder/model\.gguf changed on the hub"):
        fetch(tmp_path, progress)
    assert not (tmp_path / "model.gguf").exists()


def test_a_hub_without_a_checksum_is_believed_and_said_to_be(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.etag = "0123456789abcdef0123456789abcdef01234567"  # of git: not a sum of the content
    pulled = fetch(tmp_path, progress)
    assert (pulled.checked, pulled.sha256) == (False, SUM)
    assert "nobody gave a checksum" in progress.text


def test_a_missing_file_is_named(hub: FakeHub, tmp_path: Path, progress: Recorder) -> None:
    hub.files.clear()
    with pytest.raises(DownloadError, match=r"there is no hf:owner/repo/folder/model\.gguf there"):
        fetch(tmp_path, progress)


def test_a_failing_hub_is_no_source(hub: FakeHub) -> None:
    hub.status = 500
    with pytest.raises(SourceError, match="the hub answered 500"):
        source().offer()


def test_a_hub_that_is_not_there_is_no_source(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match=r"it cannot be reached \(Connection refused\)"):
        source().offer()


@pytest.mark.parametrize(
    ("patience", "reason"),
    [
        (dataclasses.replace(QUICK, answer_s=0.05), "it did not answer in time"),
        (dataclasses.replace(QUICK, offer_s=0.05), "it did not answer within 0.05 s"),
    ],
)
def test_a_slow_hub_is_not_waited_for(hub: FakeHub, patience: Patience, reason: str) -> None:
    hub.delay_s = 0.5
    with pytest.raises(SourceError, match=reason):
        source(patience).offer()
    time.sleep(0.6)  # the call that was left behind ends before the server does


def test_the_users_token_goes_to_the_hub_and_not_to_the_server_behind_it(
    hub: FakeHub, tmp_path: Path, progress: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch(tmp_path, progress)
    assert hub.tokens["/owner/repo/resolve/main/folder/model.gguf"] == "Bearer hf_secret"
    assert hub.tokens["/cdn/owner/repo/main/folder/model.gguf"] is None
