"""From what a user types to a place on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.errors import ConfigError, ModelFileError, ModelMissingError, UnknownModelError
from outrider.models import catalogue
from outrider.models.catalogue import CATALOGUE, HubFile
from outrider.models.parts import SMOLLM2_PARTS
from outrider.models.reference import model_files, parse_hub_file
from outrider.models.resolve import ensure, resolve
from outrider.models.store import free_bytes, models_directory, size_text
from tests.models.conftest import Recorder


class TestCatalogue:
    def test_parts_add_up_to_the_file(self) -> None:
        for model in CATALOGUE:
            assert sum(part.n_bytes for part in model.parts) == model.n_bytes
            assert len({part.package for part in model.parts}) == len(model.parts)

    def test_a_file_that_travels_in_one_piece_has_one_sum(self) -> None:
        assert SMOLLM2_PARTS[0].sha256 == catalogue.find("smollm2-135m").sha256

    def test_names_and_files_are_unique(self) -> None:
        assert len({model.name for model in CATALOGUE} | {model.file_name for model in CATALOGUE}) == 2 * len(CATALOGUE)

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("qwen2.5-coder-1.5", "did you mean qwen2.5-coder-1.5b?"),
            ("Qwen2.5-Coder-05b", "did you mean qwen2.5-coder-0.5b?"),
            ("smol", "did you mean smollm2-135m?"),
            ("gpt-4", "known names: qwen2.5-coder-1.5b, qwen2.5-coder-0.5b, smollm2-135m"),
            ("", "known names: "),
        ],
    )
    def test_an_unknown_name_gets_the_nearest_one(self, name: str, hint: str) -> None:
        with pytest.raises(UnknownModelError) as caught:
            catalogue.find(name)
        assert hint in caught.value.hint

    def test_case_does_not_matter(self) -> None:
        assert catalogue.find("SmolLM2-135M").name == "smollm2-135m"


class TestHubNames:
    @pytest.mark.parametrize(
        ("text", "file"),
        [
            ("hf:Qwen/Qwen2.5-Coder-7B-Instruct-GGUF/m-q4_k_m.gguf", HubFile("Qwen/Qwen2.5-Coder-7B-Instruct-GGUF", "m-q4_k_m.gguf")),
            ("hf:o/r/a/b/c.gguf", HubFile("o/r", "a/b/c.gguf")),
            ("hf:o/r@v1.0/c.gguf", HubFile("o/r", "c.gguf", "v1.0")),
        ],
    )
    def test_the_form_is_taken_apart_and_put_together_again(self, text: str, file: HubFile) -> None:
        assert parse_hub_file(text) == file
        assert str(file) == text

    @pytest.mark.parametrize(
        "text",
        [
            *("hf:", "hf:o", "hf:o/r", "hf:o/r/", "hf:/r/f.gguf", "hf:o//f.gguf", "hf:o/r/f.bin", "hf:o/r/.gguf"),
            *("hf:o/r/../../f.gguf", "hf:../r/f.gguf", "hf:o/../f.gguf", "hf:o/r/a//f.gguf", "hf:o/r/a\\b.gguf", "hf:o/r/a b.gguf"),
            *("hf:o/r@../f.gguf", "hf:o/r/\x00.gguf", "hf:o/r/f.gguf\n", "hf:o/r/\u202e.gguf", "hf:~/r/f.gguf", "hf:o/r@/f.gguf\x1b"),
        ],
    )
    def test_anything_else_is_refused_so_that_no_name_leaves_the_directory(self, text: str) -> None:
        with pytest.raises(UnknownModelError, match="is not of the form hf:OWNER/REPO/FILE"):
            parse_hub_file(text)

    def test_revisions_are_kept_apart(self, tmp_path: Path) -> None:
        files = [model_files(text, tmp_path)[0].path for text in ("hf:o/r/f.gguf", "hf:o/r@dev/f.gguf")]
        assert files == [tmp_path / "hf/o/r/f.gguf", tmp_path / "hf/o/r@dev/f.gguf"]

    def test_a_part_of_a_split_model_stands_for_all_parts(self, tmp_path: Path) -> None:
        files = model_files("hf:o/r/a/big-00002-of-00003.gguf", tmp_path)
        assert [file.hub.file for file in files] == [f"a/big-0000{number}-of-00003.gguf" for number in (1, 2, 3)]

    def test_numbers_that_make_no_sense_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ModelFileError, match="part 4 of 3 makes no sense"):
            model_files("hf:o/r/big-00004-of-00003.gguf", tmp_path)


class TestResolve:
    def test_a_file_that_exists_wins_over_a_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("smollm2-135m").write_bytes(b"my own")
        assert resolve("smollm2-135m") == Path("smollm2-135m")
        assert ensure("smollm2-135m") == Path("smollm2-135m")

    def test_a_directory_does_not_win_over_a_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("smollm2-135m").mkdir()
        with pytest.raises(ModelMissingError, match="has not been pulled yet"):
            resolve("smollm2-135m")

    def test_a_home_directory_is_expanded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "m.gguf").write_bytes(b"")
        assert resolve("~/m.gguf") == tmp_path / "m.gguf"

    @pytest.mark.parametrize("text", ["nowhere.gguf", "a/b", "~nobody-here/m.gguf", pytest.param("x" * 5000 + ".gguf", id="long")])
    def test_a_path_without_a_file_is_no_unknown_name(self, text: str) -> None:
        with pytest.raises(ModelMissingError, match="there is no such file"):
            resolve(text)
        with pytest.raises(ModelMissingError, match="there is no such file"):
            ensure(text)

    def test_a_directory_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(ModelMissingError, match="it is a directory, expected a GGUF file"):
            resolve(str(tmp_path))

    def test_a_device_is_no_model(self) -> None:
        with pytest.raises(ModelMissingError, match="it is no regular file, expected a GGUF file"):
            resolve("/dev/null")

    @pytest.mark.parametrize("text", ["smollm", "no\x00name", pytest.param("x" * 5000, id="long")])
    def test_a_word_that_is_neither_is_unknown(self, text: str) -> None:
        with pytest.raises(UnknownModelError):
            resolve(text)

    def test_a_model_that_is_not_here_yet_says_how_to_get_it(self) -> None:
        with pytest.raises(ModelMissingError, match="it has not been pulled yet") as caught:
            resolve("smollm2-135m")
        assert caught.value.hint == "outrider models pull smollm2-135m"
        with pytest.raises(ModelMissingError) as caught:
            resolve("hf:o/r/f.gguf")
        assert caught.value.hint == "outrider models pull hf:o/r/f.gguf"

    def test_a_file_of_the_wrong_length_is_incomplete(self, models_directory: Path) -> None:
        models_directory.mkdir()
        (models_directory / "smollm2-135m-instruct-q4_1.gguf").write_bytes(b"half")
        with pytest.raises(ModelMissingError, match="it is incomplete"):
            resolve("smollm2-135m")

    def test_a_pulled_model_is_found_without_any_source(self, models_directory: Path, progress: Recorder) -> None:
        file = models_directory / "hf/o/r/f.gguf"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"model")
        assert resolve("hf:o/r/f.gguf") == file
        assert ensure("hf:o/r/f.gguf", progress) == file
        assert progress.lines == []


class TestDirectory:
    @pytest.mark.parametrize(
        ("environment", "expected"),
        [
            ({"OUTRIDER_MODELS_DIR": "/big/models", "XDG_CACHE_HOME": "/cache"}, "/big/models"),
            ({"OUTRIDER_MODELS_DIR": "", "XDG_CACHE_HOME": "/cache"}, "/cache/outrider/models"),
            ({"XDG_CACHE_HOME": "relative"}, "HOME/.cache/outrider/models"),
            ({}, "HOME/.cache/outrider/models"),
            ({"OUTRIDER_MODELS_DIR": "~/models"}, "HOME/models"),
        ],
    )
    def test_the_first_setting_counts(
        self, environment: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        assert str(models_directory(environment)) == expected.replace("HOME", str(tmp_path))

    def test_a_relative_directory_does_not_move_with_the_working_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert models_directory({"OUTRIDER_MODELS_DIR": "here"}) == tmp_path / "here"

    def test_without_a_home_directory_one_must_be_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def nobody() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", nobody)
        with pytest.raises(ConfigError) as caught:
            models_directory({})
        assert caught.value.hint == "set OUTRIDER_MODELS_DIR"

    def test_room_is_that_of_the_nearest_directory_that_exists(self, tmp_path: Path) -> None:
        assert free_bytes(tmp_path / "not" / "yet") > 0


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(0, "0 bytes"), (999, "999 bytes"), (25_400, "25 kB"), (9_870_000, "9.9 MB"), (1_117_320_768, "1117 MB")]
)
def test_sizes_are_decimal(n_bytes: int, text: str) -> None:
    assert size_text(n_bytes) == text
