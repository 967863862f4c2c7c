from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from outrider.models.partial import PartialFile, arrived_bytes

CONTENT = bytes(range(256)) * 8
SUM = hashlib.sha256(CONTENT).hexdigest()
SIZE = len(CONTENT)


@pytest.fixture
def final(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def fill(partial: PartialFile, start: int, end: int) -> None:
    partial.write(start, CONTENT[start:end])


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_bytes_may_come_in_any_order_and_only_the_whole_file_gets_its_name(final: Path) -> None:
    with PartialFile(final, SUM, SIZE) as partial:
        fill(partial, 1000, SIZE)
        fill(partial, 0, 1000)
        assert not final.exists()
        assert partial.finish(SUM) == SUM
    assert final.read_bytes() == CONTENT
    assert names(final.parent) == ["model.gguf"]


def test_what_has_arrived_is_still_there_after_an_interruption(final: Path) -> None:
    with PartialFile(final, SUM, SIZE) as partial:
        fill(partial, 500, 700)
    with PartialFile(final, SUM, SIZE) as partial:
        assert partial.missing(0, SIZE) == [(0, 500), (700, SIZE)]
        assert partial.sha256(500, 700) == hashlib.sha256(CONTENT[500:700]).hexdigest()
        fill(partial, 0, 500)
        fill(partial, 700, SIZE)
        assert partial.finish(SUM) == SUM
    assert final.read_bytes() == CONTENT


def test_a_killed_process_leaves_a_journal_that_is_not_ahead_of_the_bytes(final: Path) -> None:
    partial = PartialFile(final, SUM, SIZE)
    fill(partial, 0, 300)  # the first write is always written down
    journal = json.loads((final.parent / "model.gguf.partial.json").read_text())
    assert journal["ranges"] == [[0, 300]]
    assert (final.parent / "model.gguf.partial").read_bytes() == CONTENT[:300]
    partial.close()


def test_bytes_of_another_version_are_not_taken_up(final: Path) -> None:
    with PartialFile(final, "old", SIZE) as partial:
        fill(partial, 0, 700)
    assert arrived_bytes(final, "old", SIZE) == 700
    assert arrived_bytes(final, SUM, SIZE) == 0
    with PartialFile(final, SUM, SIZE) as partial:
        assert partial.missing(0, SIZE) == [(0, SIZE)]
    assert arrived_bytes(final, "old", SIZE) == 0


@pytest.mark.parametrize(
    "journal",
    ["", "[]", "{}", '{"identity": 1}', "nonsense", '{"identity": "IDENTITY", "bytes": 2048, "ranges": [[0, 9999]]}', "\udc80"],
)
def test_a_journal_that_makes_no_sense_means_starting_again(final: Path, journal: str) -> None:
    with PartialFile(final, SUM, SIZE) as partial:
        fill(partial, 0, 700)
    text = journal.replace("IDENTITY", SUM).encode(errors="surrogateescape")
    (final.parent / "model.gguf.partial.json").write_bytes(text)
    with PartialFile(final, SUM, SIZE) as partial:
        assert partial.missing(0, SIZE) == [(0, SIZE)]


def test_a_partial_file_that_was_cut_means_starting_again(final: Path) -> None:
    with PartialFile(final, SUM, SIZE) as partial:
        fill(partial, 0, 700)
    (final.parent / "model.gguf.partial").write_bytes(CONTENT[:100])
    assert arrived_bytes(final, SUM, SIZE) == 0


def test_a_wrong_sum_leaves_nothing_behind(final: Path) -> None:
    with PartialFile(final, SUM, SIZE) as partial:
        fill(partial, 0, SIZE - 1)
        partial.write(SIZE - 1, b"!")
        assert partial.finish(SUM) != SUM
    assert names(final.parent) == []


def test_forgotten_bytes_are_missing_again(final: Path) -> None:
    with PartialFile(final, SUM, SIZE) as partial:
        fill(partial, 0, SIZE)
        partial.forget(100, 200)
    assert arrived_bytes(final, SUM, SIZE) == SIZE - 100


def test_nothing_is_left_of_a_pull_that_brought_nothing(final: Path) -> None:
    with PartialFile(final, SUM, SIZE) as partial:
        fill(partial, 100, 200)
        partial.forget(0, 500)
    assert names(final.parent) == []
