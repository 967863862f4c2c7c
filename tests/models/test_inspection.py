from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from outrider.errors import ModelFileError
from outrider.models.inspection import inspect
from outrider.models.tables import inspection_view, show
from tests.gguf_files import STRING, TINY_TEMPLATE, TYPE_Q4_K, U16, GgufFile, Tensor, tiny_model
from tests.models.test_progress import Screen


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return tiny_model().write(tmp_path / "tiny.gguf")


def printed(path: Path, stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    show(inspection_view(inspect(path)), stream)
    return stream.getvalue()


def test_everything_in_the_header_is_in_the_document(tiny: Path) -> None:
    document = json.loads(json.dumps(inspect(tiny).document()))
    assert document["files"] == [str(tiny)]
    assert document["file_bytes"] == tiny.stat().st_size
    assert (document["version"], document["alignment"]) == (3, 32)
    parameters = document["hyper_parameters"]
    assert (parameters["architecture"], parameters["name"], parameters["n_layers"], parameters["n_vocab"]) == ("qwen2", "Tiny", 1, 12)
    tensors = document["tensors"]
    assert tensors["types"] == [{"type": "F32", "count": 14, "bytes": 4 * parameters["n_parameters"], "share": 1.0}]
    assert tensors["bits_per_weight"] == 32.0
    tokenizer = document["tokenizer"]
    assert (tokenizer["family"], tokenizer["size"], tokenizer["merges"]) == ("gpt2", 12, 3)
    assert {"id": 9, "text": "<|im_end|>"} in tokenizer["end_tokens"]
    assert document["chat_template"] == TINY_TEMPLATE


def test_types_are_counted_and_the_largest_comes_first(tmp_path: Path) -> None:
    file = GgufFile(tensors=[Tensor("a", (8,)), Tensor("b", (256, 4), TYPE_Q4_K), Tensor("c", (16,)), Tensor("d", (256,), TYPE_Q4_K)])
    types = inspect(file.write(tmp_path / "x.gguf")).types
    assert [(share.type, share.n_tensors, share.n_bytes) for share in types] == [("Q4_K", 2, 720), ("F32", 2, 96)]
    assert [round(share.share, 4) for share in types] == [0.8824, 0.1176]


def test_a_file_that_is_no_language_model_still_shows_its_tensors(tmp_path: Path) -> None:
    path = GgufFile(tensors=[Tensor("a", (8,))]).write(tmp_path / "x.gguf")
    document = inspect(path).document()
    assert (document["hyper_parameters"], document["tokenizer"], document["chat_template"]) == (None, None, None)
    assert document["tensors"]["bits_per_weight"] is None
    assert "none in this file" in printed(path)


def test_a_file_that_says_it_has_no_tokenizer_is_believed(tmp_path: Path) -> None:
    file = tiny_model().set("tokenizer.ggml.model", STRING, "none")
    assert inspect(file.write(tmp_path / "x.gguf")).vocabulary is None


def test_an_empty_file_of_the_format_can_be_shown(tmp_path: Path) -> None:
    assert "GGUF version 3" in printed(GgufFile().write(tmp_path / "x.gguf"))


def test_all_parts_of_a_split_model_count(tmp_path: Path) -> None:
    whole = tiny_model()
    first, second = GgufFile(list(whole.keys), whole.tensors[:5]), GgufFile([], whole.tensors[5:])
    for index, part in enumerate((first, second)):
        part.set("split.no", U16, index).set("split.count", U16, 2).write(tmp_path / f"m-0000{index + 1}-of-00002.gguf")
    found = inspect(tmp_path / "m-00002-of-00002.gguf")
    assert found.types[0].n_tensors == 14
    assert [file.name for file in found.files] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    assert "m-00001-of-00002.gguf and 1 more part" in printed(tmp_path / "m-00001-of-00002.gguf")


def test_a_malformed_file_is_an_error_and_not_half_a_report(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(tiny.read_bytes()[:-1])
    with pytest.raises(ModelFileError):
        inspect(path)


def test_outside_a_terminal_lines_are_plain_and_whole(tmp_path: Path) -> None:
    path = tiny_model().set("general.name", STRING, "n" * 150).write(tmp_path / "tiny.gguf")
    text = printed(path)
    assert "n" * 150 in text
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    assert "F32        14" in text
    assert "ends generation" in text


def test_a_long_template_is_cut_with_the_way_to_see_all(tmp_path: Path) -> None:
    path = tiny_model().set("tokenizer.chat_template", STRING, "\n".join("abcdefghijkl")).write(tmp_path / "tiny.gguf")
    assert "h\n  ... 4 more lines: --template prints all" in printed(path)


def test_text_of_a_file_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07[bold]x[/bold]\u202e\r"
    path = tiny_model().set("general.name", STRING, evil).set("tokenizer.chat_template", STRING, evil).write(tmp_path / "tiny.gguf")
    text = printed(path, Screen())
    assert "\x1b]0" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text
