"""From settings to a pair: what is checked before anything native loads, and what is undone when a later step fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outrider import backends, loading
from outrider.config import ModelOptions, Settings
from outrider.errors import ConfigError, IncompatibleModelsError, ModelFileError, ModelMissingError, OutOfMemoryError, OutriderError
from outrider.model_header import ModelHeader
from outrider.testing import ByteTokenizer, TableModel, random_table
from tests.gguf_files import ARRAY, STRING, TINY_TOKENS, GgufFile, tiny_model

N_VOCAB = len(TINY_TOKENS)
BROKEN_TEMPLATE = "{% for message in messages %}{{ message.role"


@dataclass
class FakeBackend:
    """Loads table models, and fails where it is told to."""

    fail_at: str = ""
    notices: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def load_target(self, file: ModelHeader, options: ModelOptions, draft_max: int) -> tuple[TableModel, ByteTokenizer]:
        self.asked.append(draft_max)
        self.notices.append("the target's notice")
        return self._model("target"), ByteTokenizer()

    def load_draft(self, file: ModelHeader, options: ModelOptions, n_context: int) -> TableModel:
        self.asked.append(n_context)
        self.notices += ["the draft's notice", "the target's notice"]
        return self._model("draft")

    def _model(self, role: str) -> TableModel:
        self.loads.append(role)
        if self.fail_at == role:
            raise OutOfMemoryError(f"no memory for the {role}")
        backend = self

        class Model(TableModel):
            def close(self) -> None:
                backend.closed.append(role)
                super().close()

            def evaluate(self, segments: Any, cancel: Any = None) -> Any:
                if backend.fail_at == "first pass":
                    raise OutOfMemoryError("no memory for a pass")
                return super().evaluate(segments, cancel)

        return Model(random_table(N_VOCAB), N_VOCAB, n_context=48)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    fake = FakeBackend()
    monkeypatch.setattr(loading, "choose_backend", lambda options, files: fake)
    return fake


def write(folder: Path, name: str, file: GgufFile | None = None) -> str:
    return str((file or tiny_model()).write(folder / f"{name}.gguf"))


def settings(folder: Path, *, target: GgufFile | None = None, draft: GgufFile | None = None, **options: Any) -> Settings:
    return Settings.of(model=write(folder, "target", target), draft_model=write(folder, "draft", draft), **options)


def test_a_pair_is_loaded_and_closed(backend: FakeBackend, tmp_path: Path) -> None:
    with loading.load(settings(tmp_path, draft_max=5)) as pair:
        assert pair.reason == ""
        assert pair.notices == ["the target's notice", "the draft's notice"]  # each once
        assert backend.asked == [5, 48]  # the draft's context is the target's
        assert backend.closed == []
    assert sorted(backend.closed) == ["draft", "target"]


@pytest.mark.parametrize("options", [{"plain": True}, {"drafter": "none"}])
def test_a_draft_model_that_is_not_wanted_is_not_even_looked_for(backend: FakeBackend, tmp_path: Path, options: dict[str, Any]) -> None:
    wanted = Settings.of(model=write(tmp_path, "target"), draft_model=str(tmp_path / "nowhere.gguf"), **options)
    with loading.load(wanted):
        assert backend.loads == ["target"]


@pytest.mark.parametrize(
    ("fail_at", "closed"),
    [("target", []), ("draft", ["target"]), ("first pass", ["draft", "target"])],
)
def test_what_was_loaded_is_closed_when_a_later_step_fails(backend: FakeBackend, tmp_path: Path, fail_at: str, closed: list[str]) -> None:
    backend.fail_at = fail_at
    with pytest.raises(OutOfMemoryError):
        loading.load(settings(tmp_path))
    assert backend.closed == closed


def broken_header() -> GgufFile:
    return tiny_model().drop("token_embd.weight")


def other_vocabulary() -> GgufFile:
    return tiny_model().set("tokenizer.ggml.tokens", ARRAY, (STRING, [token.replace("im_start", "begin") for token in TINY_TOKENS]))


def broken_template() -> GgufFile:
    return tiny_model().set("tokenizer.chat_template", STRING, BROKEN_TEMPLATE)


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"target": broken_header()}, ModelFileError),
        ({"draft": broken_header()}, ModelFileError),
        ({"draft": other_vocabulary()}, IncompatibleModelsError),
        ({"target": broken_template()}, ModelFileError),
    ],
)
def test_files_are_checked_before_anything_is_loaded(
    backend: FakeBackend, tmp_path: Path, files: dict[str, GgufFile], error: type[OutriderError]
) -> None:
    with pytest.raises(error) as caught:
        loading.load(settings(tmp_path, **files))
    assert caught.value.hint
    assert backend.loads == []


def test_missing_files_and_names_are_said_before_anything_is_loaded(backend: FakeBackend, tmp_path: Path) -> None:
    with pytest.raises(ModelMissingError):
        loading.load(Settings.of(model=str(tmp_path / "nowhere.gguf")))
    with pytest.raises(ConfigError, match="there is no model to run"):
        loading.load(Settings.of())
    assert backend.loads == []


def test_a_broken_template_does_not_stop_raw(backend: FakeBackend, tmp_path: Path) -> None:
    with loading.load(settings(tmp_path, target=broken_template(), raw=True)) as pair:
        assert pair.settings.generation.raw


def test_the_draft_model_s_template_is_never_read(backend: FakeBackend, tmp_path: Path) -> None:
    with loading.load(settings(tmp_path, draft=broken_template())) as pair:
        assert pair.reason == ""


def test_a_file_without_a_template_loads_and_a_chat_is_refused(backend: FakeBackend, tmp_path: Path) -> None:
    with (
        loading.load(settings(tmp_path, target=tiny_model().drop("tokenizer.chat_template"))) as pair,
        pytest.raises(OutriderError, match="no chat template"),
    ):
        pair.generate("hello")


def test_a_contradiction_with_what_is_installed_comes_before_loading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="-ctk q4_0 needs llama.cpp, which is not installed"):
        loading.load(settings(tmp_path, cache_type_k="q4_0"))


@pytest.fixture
def quantised(tmp_path: Path) -> str:
    """A file that both backends can run."""
    pytest.importorskip("gguf", reason="the package gguf is not installed: nothing can write a quantised model")
    from tests.native.tiny_models import Shape, write_model

    write_model(tmp_path / "quantised.gguf", Shape())
    return str(tmp_path / "quantised.gguf")


@pytest.mark.parametrize(("backend_name", "core"), [("native", "outrider.native._core"), ("llama", "llama_cpp")])
def test_the_same_file_on_either_backend(quantised: str, backend_name: str, core: str) -> None:
    pytest.importorskip(core, reason=f"{core} is not installed", exc_type=ImportError)
    options = Settings.of(model=quantised, draft_model=quantised, backend=backend_name, context=128, threads=1, draft_max=600)
    with loading.load(options) as pair:
        found = pair.describe()
    assert (found["target"]["backend"], found["draft"]["backend"]) == (backend_name, backend_name)
    assert found["target"]["max_rows"] >= 601 or backend_name == "llama"  # llama.cpp never has more rows than context
    assert found["draft"]["n_context"] == 128
    assert found["speculation"]["active"]


@pytest.mark.parametrize(("backend_name", "core"), [("native", "outrider.native._core"), ("llama", "llama_cpp")])
def test_cache_types_are_the_target_s(quantised: str, backend_name: str, core: str) -> None:
    pytest.importorskip(core, reason=f"{core} is not installed", exc_type=ImportError)
    options = Settings.of(model=quantised, draft_model=quantised, backend=backend_name, context=128, threads=1, cache_type_k="q8_0")
    with loading.load(options) as pair:
        found = pair.describe()
    assert (found["target"]["cache_type_k"], found["target"]["cache_type_v"]) == ("q8_0", "f16")
    assert (found["draft"]["cache_type_k"], found["draft"]["cache_type_v"]) == ("f16", "f16")


def test_native_is_chosen_where_its_kernels_are_fast(quantised: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("outrider.native._core", reason="the native core was not built", exc_type=ImportError)
    monkeypatch.setattr(backends.native, "has_fast_kernels", lambda: True)
    with loading.load(Settings.of(model=quantised, context=64, threads=1)) as pair:
        assert pair.engine.target.capabilities.backend == "native"
        assert pair.notices == []


def test_flags_of_a_draft_model_that_is_not_used_are_said_to_change_nothing(quantised: str) -> None:
    pytest.importorskip("outrider.native._core", reason="the native core was not built", exc_type=ImportError)
    options: dict[str, Any] = {"model": quantised, "backend": "native", "context": 64, "threads": 1, "draft_threads": 2}
    with loading.load(Settings.of(**options)) as pair:
        assert pair.notices == ["-td 2 changes nothing: no draft model is used"]
    with loading.load(Settings.of(**options, draft_model=quantised)) as pair:
        assert pair.notices == []


def test_a_doubtful_tokenizer_is_said(quantised: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("outrider.native._core", reason="the native core was not built", exc_type=ImportError)
    monkeypatch.setitem(vars(backends.native), "doubtful_tokenizer", lambda _: "the file says too little")
    with loading.load(Settings.of(model=quantised, backend="native", context=64, threads=1)) as pair:
        assert pair.notices == ["the file says too little"]
