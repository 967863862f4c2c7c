"""From a file and options to a model, or to one clear error with nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import (
    ConfigError,
    EngineError,
    ModelFileError,
    ModelMissingError,
    OutOfMemoryError,
    OutriderError,
    UnsupportedModelError,
)
from outrider.llama import LlamaOptions, geometry, load, loading
from outrider.llama.library import library
from outrider.model import Segment
from tests.llama.conftest import Make
from tests.llama.tiny import TinyModel

Files = Callable[[str], Path]


class Freed:
    """Counts what is made and what is freed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.models = self.contexts = 0
        api = library().api
        self._count(monkeypatch, api, "llama_model_load_from_file", "models", 1)
        self._count(monkeypatch, api, "llama_model_free", "models", -1)
        self._count(monkeypatch, api, "llama_init_from_model", "contexts", 1)
        self._count(monkeypatch, api, "llama_free", "contexts", -1)

    def _count(self, monkeypatch: pytest.MonkeyPatch, api: Any, name: str, what: str, step: int) -> None:
        real = getattr(api, name)

        def counted(*arguments: Any) -> Any:
            result = real(*arguments)
            if step < 0 or result:
                setattr(self, what, getattr(self, what) + step)
            return result

        monkeypatch.setattr(api, name, counted)


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> Freed:
    return Freed(monkeypatch)


# ---- the context -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_trained", "options", "n_context", "n_notices"),
    [
        (512, {}, 512, 0),
        (512, {"n_context": 300}, 300, 0),
        (512, {"n_context": 1024}, 1024, 1),
        (512, {"n_context": 1024, "cap_context": True}, 512, 0),
        (20000, {}, 8192, 0),
        (20000, {"n_context": 9000}, 9000, 0),
        (0, {}, 8192, 0),
        (-1, {}, 8192, 0),
        (512, {"n_context": 400, "n_cells": 100}, 100, 0),
    ],
)
def test_the_context_that_is_chosen(n_trained: int, options: dict[str, Any], n_context: int, n_notices: int) -> None:
    window = loading._window(n_trained, LlamaOptions(**options))
    assert window.n_context == n_context
    assert len(window.notices) == n_notices


def test_cells_follow_context_and_sequences() -> None:
    assert loading._window(512, LlamaOptions(n_context=300, n_sequences=4)).n_cells == 1200
    assert loading._window(512, LlamaOptions(n_context=300, n_sequences=4, n_cells=700)).n_cells == 700
    with pytest.raises(ConfigError, match="than llama.cpp can count"):
        loading._window(512, LlamaOptions(n_context=2**30, n_sequences=4))


def test_notices_of_a_loaded_model(make: Make) -> None:
    model = make(n_context=600, gpu_layers=99, device="cpu")
    assert len(model.notices) == 2
    assert "-ngl 99" in model.notices[0]
    assert "-c 600" in model.notices[1]
    assert make().notices == []


def test_rows_never_exceed_what_llama_cpp_accepts(make: Make) -> None:
    model = make(n_context=20, n_sequences=1, max_rows=512)
    assert model.capabilities.n_context == 20
    assert model.capabilities.max_rows <= 512
    sequence = model.open()
    n_rows = model.capabilities.max_rows
    if n_rows <= 20:  # llama.cpp limits a pass to the context
        model.evaluate([Segment(sequence, tuple(range(n_rows)))])
    with pytest.raises(EngineError):
        model.evaluate([Segment(model.open() if n_rows > 20 else sequence, tuple(range(n_rows + 1)))])


def test_threads_default_to_the_usable_cpus(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "usable_cpus", lambda: 3)
    api = library().api
    assert api.llama_n_threads(make(threads=0)._native.context) == 3
    model = make(threads=2)
    assert (api.llama_n_threads(model._native.context), api.llama_n_threads_batch(model._native.context)) == (2, 2)


@pytest.mark.parametrize("flash", ["on", "off", "auto"])
@pytest.mark.parametrize("types", [("f32", "f32"), ("bf16", "f16"), ("q8_0", "f16"), ("q4_0", "q8_0"), ("iq4_nl", "q5_1")])
def test_cache_types(make: Make, flash: str, types: tuple[str, str]) -> None:
    if flash == "off" and types[1] not in ("f16", "f32"):
        with pytest.raises(ConfigError, match="contradicts -fa off"):
            make(flash_attention=flash, cache_type_k=types[0], cache_type_v=types[1])
        return
    model = make(flash_attention=flash, cache_type_k=types[0], cache_type_v=types[1], kv_offload=False)
    sequence = model.open()
    model.evaluate([Segment(sequence, (1, 2, 3))]).argmax([0, 1, 2])


# ---- refusals ----------------------------------------------------------------------------------------------------------


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.gguf", tmp_path, Path(), Path("a\0b"), tmp_path / "x" / "y"):
        with pytest.raises(ModelMissingError, match="cannot be opened") as caught:
            load(path)
        assert caught.value.hint


@pytest.mark.parametrize("content", [b"", b"GGUF", b"hello world, this is a text file\n" * 50, b"GGUF\x03\0\0\0" + b"\xff" * 100])
def test_files_that_are_no_models(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="llama.cpp cannot load it"):
        load(path)


def test_a_truncated_file(tiny_files: Files, tmp_path: Path) -> None:
    whole = tiny_files("llama").read_bytes()
    for share in (0.3, 0.9, 0.999):
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(ModelFileError, match="llama.cpp cannot load it"):
            load(path)


@pytest.mark.parametrize(
    ("spoilt", "error", "says"),
    [
        ({"metadata": {"general.architecture": "nonesuch"}}, UnsupportedModelError, "unknown model architecture: 'nonesuch'"),
        ({"metadata": {"tokenizer.ggml.pre": "nonesuch"}}, UnsupportedModelError, "unknown pre-tokenizer type: 'nonesuch'"),
        ({"metadata": {"tokenizer.ggml.model": "nonesuch"}}, UnsupportedModelError, "unknown tokenizer: 'nonesuch'"),
        ({"metadata": {"tokenizer.ggml.model": "llama"}}, UnsupportedModelError, "no token for .* of the 256 bytes"),
        ({"drop": ("blk.1.attn_q.weight",)}, ModelFileError, "'blk.1.attn_q.weight' not found"),
        ({"reshape": {"blk.0.attn_q.weight": (64, 32)}}, ModelFileError, "wrong shape"),
        ({"metadata": {"llama.block_count": 1}}, ModelFileError, "wrong number of tensors"),
        ({"metadata": {"llama.context_length": None}}, ModelFileError, "key not found in model: llama.context_length"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_models_that_llama_cpp_refuses(tmp_path: Path, freed: Freed, spoilt: dict[str, Any], error: type[OutriderError], says: str) -> None:
    path = TinyModel(**spoilt).write(tmp_path / "spoilt.gguf")
    with pytest.raises(error, match=says) as caught:
        load(path)
    assert type(caught.value) is error
    assert caught.value.hint
    assert (freed.models, freed.contexts) == (0, 0)


def test_a_quantised_cache_that_does_not_fit_the_heads(tmp_path: Path, freed: Freed) -> None:
    path = TinyModel(n_embd=160).write(tmp_path / "heads80.gguf")
    for options in ({"cache_type_k": "q8_0", "flash_attention": "off"}, {"cache_type_k": "q4_0"}, {"cache_type_v": "iq4_nl"}):
        with pytest.raises(ConfigError, match="this model's have 80"):
            load(path, LlamaOptions(**options))
    assert (freed.models, freed.contexts) == (0, 0)
    load(path, LlamaOptions(cache_type_k="bf16")).close()


def test_a_cache_that_is_larger_than_the_memory(tiny_files: Files, monkeypatch: pytest.MonkeyPatch, freed: Freed) -> None:
    monkeypatch.setattr(geometry, "available_memory", lambda: 2**20)
    per_cell = 2 * 1 * (32 + 32) * 2  # layers x heads x (key + value) x bytes of f16
    fits = 2**20 // per_cell
    load(tiny_files("llama"), LlamaOptions(n_context=fits)).close()
    with pytest.raises(OutOfMemoryError, match="needs 0.0 GiB") as caught:
        load(tiny_files("llama"), LlamaOptions(n_context=fits + 1))
    assert "-c" in caught.value.hint
    assert (freed.models, freed.contexts) == (0, 0)


def test_more_sequences_than_llama_cpp_can_run(tiny_files: Files) -> None:
    with pytest.raises(ConfigError, match="257 sequences"):
        load(tiny_files("llama"), LlamaOptions(n_sequences=257))


@pytest.mark.parametrize(
    ("function", "result", "error", "says"),
    [
        ("llama_model_load_from_file", None, ModelFileError, "gave no reason"),
        ("llama_init_from_model", None, UnsupportedModelError, "cannot make a context"),
        ("llama_get_memory", None, UnsupportedModelError, "no KV cache"),
        ("llama_model_get_vocab", None, UnsupportedModelError, "no vocabulary"),
        ("llama_vocab_type", 0, UnsupportedModelError, "no tokenizer"),
        ("llama_vocab_n_tokens", 0, UnsupportedModelError, "no tokenizer"),
        ("llama_model_has_encoder", True, UnsupportedModelError, "left-to-right"),
        ("llama_model_has_decoder", False, UnsupportedModelError, "left-to-right"),
        ("llama_model_is_diffusion", True, UnsupportedModelError, "left-to-right"),
        ("llama_decode", -3, EngineError, "code -3"),
        ("llama_memory_seq_rm", False, EngineError, "could not empty its cache"),
    ],
)
def test_every_native_answer_is_read_while_loading(
    tiny_files: Files, monkeypatch: pytest.MonkeyPatch, freed: Freed, function: str, result: Any, error: type[OutriderError], says: str
) -> None:
    monkeypatch.setattr(library().api, function, lambda *_: result)
    with pytest.raises(error, match=says):
        load(tiny_files("llama"))
    assert (freed.models, freed.contexts) == (0, 0)


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (b"f: failed to allocate buffer for kv cache\n", OutOfMemoryError),
        (b"f: CUDA error: out of memory\n", OutOfMemoryError),
        (b"f: quantized V cache requires something\n", UnsupportedModelError),
    ],
)
def test_the_log_tells_memory_from_the_rest(
    tiny_files: Files, monkeypatch: pytest.MonkeyPatch, freed: Freed, reason: bytes, error: type[OutriderError]
) -> None:
    lib = library()
    for function in ("llama_init_from_model", "llama_model_load_from_file"):
        with monkeypatch.context() as patch:
            patch.setattr(lib.api, function, lambda *_: lib.log.write(4, reason))
            expected = ModelFileError if function != "llama_init_from_model" and error is not OutOfMemoryError else error
            with pytest.raises(expected, match=reason.decode()[3:-1]):
                load(tiny_files("llama"))
    assert (freed.models, freed.contexts) == (0, 0)


def test_closing_frees_model_and_context(make: Make, freed: Freed) -> None:
    model = make()
    assert (freed.models, freed.contexts) == (1, 1)
    model.close()
    assert (freed.models, freed.contexts) == (0, 0)


# ---- progress ----------------------------------------------------------------------------------------------------------


def test_progress_rises_to_one(tiny_files: Files) -> None:
    shares: list[float] = []
    load(tiny_files("llama"), progress=shares.append).close()
    assert shares
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_what_progress_raises_ends_the_loading(tiny_files: Files, freed: Freed) -> None:
    def stop(share: float) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        load(tiny_files("llama"), progress=stop)
    assert (freed.models, freed.contexts) == (0, 0)


def test_an_interrupt_while_loading_frees_what_arrives_late(tiny_files: Files, freed: Freed, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import Future

    class Interrupted(BaseException):
        pass

    real = Future.result
    interrupted: list[bool] = []

    def once(self: Future[Any], timeout: float | None = None) -> Any:
        if not interrupted:
            interrupted.append(True)
            raise Interrupted
        return real(self, timeout)

    monkeypatch.setattr(Future, "result", once)
    with pytest.raises(Interrupted):
        load(tiny_files("llama"))
    assert (freed.models, freed.contexts) == (0, 0)


# ---- suspicious files, each in a process of its own --------------------------------------------------------------------

SUSPICIOUS: dict[str, dict[str, Any]] = {
    "no heads": {"metadata": {"llama.attention.head_count": 0}},
    "a width of zero": {"metadata": {"llama.embedding_length": 0}},
    "odd rotation": {"metadata": {"llama.rope.dimension_count": 31}},
    "huge context": {"metadata": {"llama.context_length": 2**32 - 1}},
    "huge heads": {"metadata": {"llama.attention.head_count": 100000}},
    "merges of nothing": {"metadata": {"tokenizer.ggml.merges": ["", "a", " ", "a b c d"]}},
    "a vocabulary of a few letters": {
        "tokens": ["a", "b", "ab", "</s>"],
        "types": [1, 1, 1, 3],
        "metadata": {"tokenizer.ggml.bos_token_id": 3, "tokenizer.ggml.eos_token_id": 3},
    },
    "ids beyond the vocabulary": {"metadata": {"tokenizer.ggml.bos_token_id": 99999, "tokenizer.ggml.eos_token_id": 99999}},
    "another family's vocabulary": {"metadata": {"tokenizer.ggml.model": "rwkv"}},
    "not a number everywhere": {"metadata": {"llama.rope.freq_base": 0.0}},
}

EXERCISE = """
from pathlib import Path
from outrider.errors import OutriderError
from outrider.llama import LlamaOptions, load
from outrider.model import Segment
for path in sys.argv[1:]:
    try:
        model = load(Path(path), LlamaOptions(n_sequences=2, threads=1))
        ids = model.tokenizer.encode("a b\\n\\0\\u00ff \\u4e2d \\U0001f600 <s>", parse_special=True, add_bos=True)
        text = b"".join(map(model.tokenizer.piece, ids))
        sequence = model.open()
        model.evaluate([Segment(sequence, (1, 2, 3))]).argmax([2])
        model.close()
        print("ran")
    except OutriderError as error:
        print(type(error).__name__)
"""


@pytest.mark.filterwarnings("ignore")
def test_suspicious_files_never_end_the_process(tmp_path: Path) -> None:
    import outrider

    paths = [TinyModel(**spoilt).write(tmp_path / f"{index}.gguf") for index, spoilt in enumerate(SUSPICIOUS.values())]
    code = f"import sys; sys.path.insert(0, {str(Path(outrider.__file__).parents[1])!r})\n{EXERCISE}"
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) == len(SUSPICIOUS)
