"""The adapter keeps the ports: reductions, errors, life and death."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader

from outrider.errors import CacheFullError, CancelledError, ConfigError, EngineError, ModelFileError, UnsupportedModelError
from outrider.model import LanguageModel, Segment
from outrider.native import NativeOptions, load
from tests.native.conftest import Loader
from tests.native.tiny_models import Shape, write_model


def test_reductions_agree_with_the_rows(mixed_file: Path, loaded: Loader) -> None:
    model = loaded(mixed_file)
    evaluation = model.evaluate([Segment(model.open(), (5, 6, 7))])
    rows = evaluation.rows([0, 2])
    assert evaluation.argmax([0, 2]).tolist() == rows.argmax(axis=1).tolist()
    ids, values = evaluation.top_k([0, 2], 9)
    order = np.argsort(-rows, axis=1, kind="stable")[:, :9]
    assert ids.tolist() == order.tolist()
    assert values.tobytes() == np.take_along_axis(rows, order, axis=1).tobytes()
    exact = np.log(np.exp(rows.astype(np.float64)).sum(axis=1))
    assert np.allclose(evaluation.logsumexp([0, 2]), exact, atol=1e-5)


def test_rows_asked_for_one_by_one_are_the_same(mixed_file: Path, loaded: Loader) -> None:
    model = loaded(mixed_file)
    evaluation = model.evaluate([Segment(model.open(), tuple(range(12)))])
    single = np.concatenate([evaluation.rows([node]) for node in range(12)])
    assert single.tobytes() == evaluation.rows(range(12)).tobytes()


def test_port_is_kept(mixed_file: Path, loaded: Loader) -> None:
    model = loaded(mixed_file)
    assert isinstance(model, LanguageModel)
    assert model.capabilities.bit_exact
    assert model.capabilities.tree
    assert model.capabilities.n_vocab == 300


def test_unannounced_and_stale_rows_raise(mixed_file: Path, loaded: Loader) -> None:
    model = loaded(mixed_file)
    sequence = model.open()
    evaluation = model.evaluate([Segment(sequence, (1, 2, 3), n_outputs=1)])
    with pytest.raises(EngineError, match="row 1 was not announced"):
        evaluation.argmax([1])
    evaluation.argmax([2])
    sequence.commit([0])
    model.evaluate([Segment(sequence, (4,))])
    with pytest.raises(EngineError, match="stale"):
        evaluation.argmax([2])


def test_provisional_rows_must_be_settled(mixed_file: Path, loaded: Loader) -> None:
    model = loaded(mixed_file)
    sequence = model.open()
    model.evaluate([Segment(sequence, (1, 2))])
    for misuse in (lambda: sequence.truncate(0), lambda: sequence.fork(0), lambda: model.evaluate([Segment(sequence, (3,))])):
        with pytest.raises(EngineError, match="neither committed nor dropped"):
            misuse()
    with pytest.raises(EngineError, match="not a path"):
        sequence.commit([1])
    sequence.commit([])
    assert sequence.length == 0
    with pytest.raises(EngineError, match="no provisional rows"):
        sequence.commit([])


@pytest.mark.parametrize(
    ("tokens", "parents", "problem"),
    [
        ((300,), (), "outside the vocabulary"),
        ((-1,), (), "outside the vocabulary"),
        ((1, 2), (-1, 1), "earlier rows"),
        ((1, 2), (-1,), "a parent for each"),
        ((), (), "needs tokens"),
    ],
)
def test_bad_segments_change_nothing(
    mixed_file: Path, loaded: Loader, tokens: tuple[int, ...], parents: tuple[int, ...], problem: str
) -> None:
    model = loaded(mixed_file)
    sequence = model.open()
    with pytest.raises(EngineError, match=problem):
        model.evaluate([Segment(sequence, tokens, parents)])
    model.evaluate([Segment(sequence, (1,))])
    assert sequence.length == 0


def test_full_context_is_told(mixed_file: Path, loaded: Loader) -> None:
    model = loaded(mixed_file, n_context=20)
    sequence = model.open()
    assert sequence.reserve(20)
    assert not sequence.reserve(21)
    with pytest.raises(CacheFullError):
        model.evaluate([Segment(sequence, (1,) * 21)])
    model.evaluate([Segment(sequence, (1,) * 20)])


def test_sequences_run_out_and_come_back(mixed_file: Path, loaded: Loader) -> None:
    model = loaded(mixed_file, n_sequences=2)
    first, second = model.open(), model.open()
    with pytest.raises(EngineError, match="all 2 sequences"):
        model.open()
    first.close()
    with pytest.raises(EngineError, match="closed"):
        first.close()
    second.fork(0)


def test_cancelled_pass_leaves_the_sequence(mixed_file: Path, loaded: Loader) -> None:
    class Late(Event):
        """Set from the second look on, which is inside the pass."""

        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            return self.looks > 1

    model = loaded(mixed_file)
    sequence = model.open()
    before = model.evaluate([Segment(sequence, (1, 2))]).rows([1])
    sequence.commit([])
    with pytest.raises(CancelledError):
        model.evaluate([Segment(sequence, (1, 2))], Late())
    assert sequence.length == 0
    assert model.evaluate([Segment(sequence, (1, 2))], Event()).rows([1]).tobytes() == before.tobytes()


def test_closed_model_says_so(mixed_file: Path) -> None:
    model = load(mixed_file, NativeOptions(threads=1))
    sequence = model.open()
    evaluation = model.evaluate([Segment(sequence, (1,))])
    model.close()
    for use in (model.open, model.close, lambda: sequence.length, lambda: evaluation.argmax([0])):
        with pytest.raises(EngineError):
            use()


def test_unknown_instruction_set_names_those_there_are(mixed_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTRIDER_ISA", raising=False)
    with pytest.raises(ConfigError, match="this CPU has .*scalar"):
        load(mixed_file, NativeOptions(isa="mmx"))


def test_environment_chooses_the_instruction_set(mixed_file: Path, monkeypatch: pytest.MonkeyPatch, loaded: Loader) -> None:
    monkeypatch.setenv("OUTRIDER_ISA", "scalar")
    assert loaded(mixed_file, isa="").engine.isa == "scalar"


def test_file_that_shrank_is_an_error(mixed_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(mixed_file.read_bytes()[:-1000])
    with pytest.raises(ModelFileError):
        load(path)


def test_a_type_without_kernels_is_refused_with_the_way_out(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf", Shape(types=(Type.Q4_0,)))
    field = next(tensor for tensor in GGUFReader(tmp_path / "m.gguf").tensors if tensor.name == "blk.0.attn_q.weight").field
    data = bytearray((tmp_path / "m.gguf").read_bytes())
    offset = int(field.offset) + sum(int(part.nbytes) for part in field.parts[:-2])
    data[offset : offset + 4] = int(Type.IQ4_NL).to_bytes(4, "little")  # its blocks are as large
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(UnsupportedModelError, match=r"type IQ4_NL of tensor 'blk\.0\.attn_q\.weight'") as refusal:
        load(tmp_path / "m.gguf")
    assert refusal.value.hint == "use --backend llama"


def test_a_norm_that_is_quantised_is_refused_with_the_way_out(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf", Shape(vectors=Type.Q8_0))
    with pytest.raises(UnsupportedModelError, match=r"type Q8_0 of tensor 'blk\.0\.attn_norm\.weight'"):
        load(tmp_path / "m.gguf")


def test_rows_that_16_does_not_divide_are_refused_with_the_way_out(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf", Shape(embedding=128, feed_forward=200, heads=2, kv_heads=1, types=(Type.F32,)))
    with pytest.raises(UnsupportedModelError, match="rows of 128 and 200 values") as refusal:
        load(tmp_path / "m.gguf")
    assert refusal.value.hint == "use --backend llama"


def test_trimmed_head_scores_the_first_and_the_special_tokens(mixed_file: Path, loaded: Loader) -> None:
    whole, trimmed = loaded(mixed_file), loaded(mixed_file, head_tokens=96)
    full = whole.evaluate([Segment(whole.open(), (1, 2, 3))]).rows(range(3))
    evaluation = trimmed.evaluate([Segment(trimmed.open(), (1, 2, 3))])
    part = evaluation.rows(range(3))
    kept = [*range(96), *range(288, 300)]  # token 299 is special, and a group of 16 rows is read as a whole
    assert part[:, kept].tobytes() == full[:, kept].tobytes()
    assert (part[:, 96:288] == -np.inf).all()
    assert evaluation.argmax(range(3)).tolist() == part.argmax(axis=1).tolist()
    assert np.allclose(evaluation.logsumexp(range(3)), np.log(np.exp(part.astype(np.float64)).sum(axis=1)), atol=1e-5)
    assert trimmed.engine.bytes_per_pass < whole.engine.bytes_per_pass
