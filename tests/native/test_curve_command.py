"""`outrider bench curve` on a tiny model: the whole way from the command line to the document."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from outrider import native
from outrider.bench.limits import pass_cost
from outrider.bench.plan import PassShape
from outrider.cli.main import main
from outrider.errors import CancelledError, EngineError
from outrider.model_header import ModelHeader
from outrider.native import NativeModel
from outrider.native.options import ISA_VARIABLE
from tests.bench.test_document import SCHEMA, mismatches

machine_limits = native.machine_limits
QUICK = ["--rows", "1,2,5", "--prompt-rows", "8", "--context", "3,20", "--repeat", "2", "-t", "1"]


@pytest.fixture(autouse=True)
def _quick_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "machine_limits", lambda threads, isa, n_bytes: (12.5, 80.0))


def curve(file: Path, *words: str) -> int:
    return main(["bench", "curve", "-m", str(file), *QUICK, *words])


def test_the_document_of_a_run(mixed_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "curve.json"
    assert curve(mixed_file, "--backend", "native", "--json", str(out)) == 0
    document = json.loads(out.read_text())
    alone = SCHEMA | {"engines": {"native": SCHEMA["engines"]["native"]}}
    (point,) = SCHEMA["points"]
    alone["points"] = [point | {"engines": {"native": point["engines"]["native"]}, "ratio": type(None)}]
    assert mismatches(document, alone) == []
    assert [(found["context"], found["rows"], found["logits_rows"]) for found in document["points"]] == [
        (context, *shape) for context in (3, 20) for shape in ((1, 1), (2, 2), (5, 5), (8, 1))
    ]
    assert not document["partial"]
    assert document["provenance"]["models"]["target"]["file"] == "mixed.gguf"
    assert str(mixed_file.parent) not in out.read_text()
    assert document["provenance"]["command"].startswith("outrider bench curve -m mixed.gguf --rows 1,2,5")
    shown = capsys.readouterr()
    assert "mixed.gguf" in shown.out
    assert "context 20" in shown.out
    assert list(tmp_path.iterdir()) == [out]


def test_a_document_on_standard_output_is_alone_there(mixed_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert curve(mixed_file, "--backend", "native", "--cpu-time", "--json", "-") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["clock"], document["threads"]) == ("cpu", 1)


@pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
def test_both_engines_in_one_run(mixed_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "curve.json"
    assert curve(mixed_file, "--backend", "both", "--json", str(out)) == 0
    assert mismatches(json.loads(out.read_text()), SCHEMA) == []


def test_the_instruction_set_is_the_one_that_was_asked_for(mixed_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ISA_VARIABLE, "nonsense")
    out = tmp_path / "curve.json"
    assert curve(mixed_file, "--backend", "native", "--isa", "scalar", "--json", str(out)) == 0
    document = json.loads(out.read_text())
    assert document["limits"]["isa"] == "scalar"
    assert "scalar" in document["engines"]["native"]["device"]
    assert os.environ[ISA_VARIABLE] == "nonsense"
    assert curve(mixed_file, "--backend", "native") == 2
    assert curve(mixed_file, "--backend", "native", "--isa", "mmx") == 2


@pytest.mark.parametrize("words", [["--context", "2k"], ["--prompt-rows", "2k", "--context", "1"]])
def test_more_positions_than_the_model_has(mixed_file: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert curve(mixed_file, "--backend", "native", *words) == 2
    error = capsys.readouterr().err
    assert "the model has 2048" in error
    assert "lower --context, --rows or --prompt-rows" in error


class Failing:
    """Lets so many passes through, then does something else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int, then: Any) -> None:
        evaluate, self.n = NativeModel.evaluate, n

        def counted(model: NativeModel, segments: Any, cancel: Any = None) -> Any:
            self.n -= 1
            if self.n < 0:
                then()
            return evaluate(model, segments, cancel)

        monkeypatch.setattr(NativeModel, "evaluate", counted)


def test_ctrl_c_keeps_what_is_finished(
    mixed_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "curve.json"
    interrupts = iter([1])

    def press() -> None:
        if next(interrupts, None):
            os.kill(os.getpid(), 2)

    Failing(monkeypatch, 12, press)
    assert curve(mixed_file, "--backend", "native", "--json", str(out)) == 130
    document = json.loads(out.read_text())
    assert document["partial"]
    assert document["points"]
    assert capsys.readouterr().out.startswith("partial: ")


def test_ctrl_c_before_the_first_pass_says_so(
    mixed_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press() -> None:
        os.kill(os.getpid(), 2)
        raise CancelledError("the pass was cancelled")

    Failing(monkeypatch, 0, press)
    assert curve(mixed_file, "--backend", "native") == 130
    shown = capsys.readouterr()
    assert (shown.out, "nothing to show" in shown.err) == ("", True)


def test_a_failing_pass_loses_nothing(mixed_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise EngineError("it broke")

    out = tmp_path / "curve.json"
    Failing(monkeypatch, 12, fail)
    assert curve(mixed_file, "--backend", "native", "--json", str(out)) == 11
    document = json.loads(out.read_text())
    assert (document["partial"], document["error"]) == (True, "it broke")
    assert document["points"]


def test_a_failing_pass_leaves_one_document_on_standard_output(
    mixed_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise EngineError("it broke", "mend it")

    for n_passes in (12, 0):
        capsys.readouterr()
        with monkeypatch.context() as patch:
            Failing(patch, n_passes, fail)
            assert curve(mixed_file, "--backend", "native", "--json", "-") == 11
        shown = capsys.readouterr()
        assert "outrider: error: it broke\nhint: mend it\n" in shown.err
        error = json.loads(shown.out)["error"]
        assert error == "it broke" if n_passes else error["message"] == "it broke"


def test_the_machine_s_limits_are_measured() -> None:
    memory, int8 = machine_limits(1, native.instruction_sets()[0], 1 << 22)
    assert memory > 0
    assert int8 > 0


def test_the_cost_of_a_pass_is_the_file_s(mixed_file: Path) -> None:
    header = ModelHeader.read(mixed_file)
    cost = pass_cost(header.parameters, header.split.tensors, "f16", "q8_0")
    assert cost is not None
    layer = 256 * (256 + 2 * 128 + 256) + 3 * 256 * 512  # q, k, v and output; gate, up and down
    assert (cost.layer_weights, cost.head_weights) == (2 * layer, 256 * 300)
    assert cost.n_macs(PassShape(5, 1)) == 5 * 2 * layer + 256 * 300
    matrices = [tensor for tensor in header.split.tensors if len(tensor.shape) > 1 and tensor.name != "token_embd.weight"]
    assert cost.weight_bytes == sum(tensor.n_bytes for tensor in matrices)
    assert cost.cache_bytes_per_position == 2 * 2 * 64 * (2 + 34 / 32)
    assert cost.n_bytes(10) == cost.weight_bytes + 10 * cost.cache_bytes_per_position
