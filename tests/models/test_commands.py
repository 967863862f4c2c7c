"""`outrider models`, from the command line to what it prints and its exit code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.main import main
from outrider.errors import EXIT_CODES, ChecksumError, DownloadError, ModelFileError, ModelMissingError, UnknownModelError
from outrider.models.catalogue import CatalogueModel, HubFile, Role
from outrider.models.partial import PartialFile
from tests.gguf_files import TINY_TEMPLATE, tiny_model
from tests.models.fake_hub import FakeHub
from tests.models.fake_index import FakeIndex, indexing, parts_of, wheels_of

CONTENT = tiny_model().to_bytes()
SUM = hashlib.sha256(CONTENT).hexdigest()
PARTS = parts_of(CONTENT, 1)
TINY = CatalogueModel(
    name="tiny",
    title="Tiny F32",
    file_name="tiny-f32.gguf",
    n_bytes=len(CONTENT),
    sha256=SUM,
    licence="CC0-1.0",
    description="Says nothing of interest.",
    role=Role.SMALL,
    hub=HubFile("owner/repo", "tiny.gguf"),
    parts=PARTS,
)


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.models.catalogue.CATALOGUE", (TINY,))


@pytest.fixture
def file(models_directory: Path) -> Path:
    return models_directory / "tiny-f32.gguf"


@pytest.fixture
def document(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command that must succeed, with --json; returns its document."""

    def run(*words: str) -> Any:
        assert main(["models", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_pull_takes_the_hub_first(hub: FakeHub, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.put("owner/repo/tiny.gguf", CONTENT)
    assert main(["models", "pull", "tiny"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{file}\n"
    assert "from the Hugging Face hub" in err
    assert "checksum right" in err
    assert file.read_bytes() == CONTENT
    assert main(["models", "pull", "tiny"]) == 0
    assert "tiny: already here, and its checksum is right\n" in capsys.readouterr().err


def test_pull_takes_the_package_registry_when_the_hub_is_down(
    file: Path, document: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with indexing(FakeIndex(wheels_of(CONTENT, PARTS))) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        (pulled,) = document("pull", "tiny")["models"]
    assert file.read_bytes() == CONTENT
    assert pulled.pop("seconds") > 0
    expected = {"name": "tiny", "path": str(file), "bytes": len(CONTENT), "sha256": SUM, "checked": True, "source": "package registry"}
    assert pulled == expected


def test_pull_without_any_source_names_them_all(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "pull", "tiny", "--json"]) == EXIT_CODES[DownloadError]
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["type"] == "DownloadError"
    for text in (error["message"], err):
        assert "Hugging Face hub: it cannot be reached (Connection refused)" in text
        assert "package registry: model-part1 1.0: No matching distribution found" in text
    assert "Traceback" not in err
    assert not file.exists()


def test_pull_of_altered_bytes_is_a_checksum_error(hub: FakeHub, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.put("owner/repo/tiny.gguf", CONTENT)
    hub.served = CONTENT[:-1] + b"!"
    assert main(["models", "pull", "tiny"]) == EXIT_CODES[ChecksumError]
    assert f"expected sha256 {SUM}, found {hashlib.sha256(hub.served).hexdigest()}" in capsys.readouterr().err
    assert not file.exists()


def test_pull_of_a_hub_file_by_its_own_name(hub: FakeHub, models_directory: Path, document: Callable[..., Any]) -> None:
    hub.put("a/b/c/m.gguf", CONTENT)
    (pulled,) = document("pull", "hf:a/b/c/m.gguf")["models"]
    path = models_directory / "hf/a/b/c/m.gguf"
    assert (pulled["path"], pulled["checked"], path.read_bytes()) == (str(path), True, CONTENT)
    assert document("path", "hf:a/b/c/m.gguf")["path"] == str(path)
    listed = document("list")["models"]
    assert (listed[-1]["name"], listed[-1]["state"]) == ("hf:a/b/c/m.gguf", "pulled")


def test_all_parts_of_a_split_model_are_pulled(hub: FakeHub, document: Callable[..., Any]) -> None:
    for number in (1, 2):
        hub.put(f"a/b/m-0000{number}-of-00002.gguf", CONTENT + bytes([number]))
    pulled = document("pull", "hf:a/b/m-00002-of-00002.gguf")["models"]
    assert [Path(entry["path"]).name for entry in pulled] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]


def test_list_says_what_is_here(file: Path, document: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = document("list")["models"]
    assert (entry["state"], entry["arrived_bytes"], entry["bytes"], entry["sha256"]) == ("absent", 0, len(CONTENT), SUM)
    assert entry["sources"] == [{"hub": "hf:owner/repo/tiny.gguf"}, {"packages": ["model-part1==1.0"]}]
    file.parent.mkdir()
    with PartialFile(file, SUM, len(CONTENT)) as partial:
        partial.write(0, CONTENT[: len(CONTENT) // 2])
    assert document("list")["models"][0]["state"] == "partial"
    assert main(["models", "list"]) == 0
    table = capsys.readouterr().out
    assert "NAME" in table
    assert "% pulled" in table
    assert "Says nothing of interest." in table
    file.write_bytes(b"short")
    assert document("list")["models"][0]["state"] == "damaged"
    file.write_bytes(CONTENT)
    assert document("list")["models"][0]["state"] == "pulled"


def test_list_shows_sources_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list"]) == 0
    assert SUM not in capsys.readouterr().out
    assert main(["models", "list", "--sources"]) == 0
    text = capsys.readouterr().out
    for part in (SUM, "hf:owner/repo/tiny.gguf", "model-part1, version 1.0, from the package registry"):
        assert part in text


def test_path_prints_the_path_and_nothing_else(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "path", "tiny"]) == EXIT_CODES[ModelMissingError]
    out, err = capsys.readouterr()
    assert out == ""
    assert "hint: outrider models pull tiny" in err
    file.parent.mkdir()
    file.write_bytes(CONTENT)
    assert main(["models", "path", "tiny"]) == 0
    assert capsys.readouterr().out == f"{file}\n"


def test_inspect_takes_a_name_or_a_file(file: Path, document: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir()
    file.write_bytes(CONTENT)
    assert document("inspect", "tiny") == document("inspect", str(file))
    assert main(["models", "inspect", "tiny"]) == 0
    assert "architecture     qwen2" in capsys.readouterr().out


def test_inspect_prints_the_template_alone(file: Path, document: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir()
    file.write_bytes(CONTENT)
    assert main(["models", "inspect", "tiny", "--template"]) == 0
    assert capsys.readouterr().out == TINY_TEMPLATE + "\n"
    assert document("inspect", "tiny", "--template") == {"chat_template": TINY_TEMPLATE}
    file.write_bytes(b"")
    bare = tiny_model().drop("tokenizer.chat_template").write(file.with_name("bare.gguf"))
    assert main(["models", "inspect", str(bare), "--template"]) == EXIT_CODES[ModelFileError]


@pytest.mark.parametrize("command", ["pull", "path", "inspect"])
def test_an_unknown_name_is_one_line_and_a_hint(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", command, "tinny"]) == EXIT_CODES[UnknownModelError]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["outrider: error: no model is called 'tinny'", "hint: did you mean tiny?"]


def test_a_text_file_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.gguf").write_text("# notes\n")
    assert main(["models", "inspect", str(tmp_path / "notes.gguf")]) == EXIT_CODES[ModelFileError]
    assert "expected 'GGUF'" in capsys.readouterr().err


def test_ctrl_c_during_a_pull_is_reported_by_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("outrider.models.targets.pull_model", interrupted)
    assert main(["models", "pull", "tiny"]) == 130
