"""Which vocabularies may work together, and what the refusal says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.errors import IncompatibleModelsError
from outrider.gguf import FimTokens, TokenType, Vocabulary, read_header, read_vocabulary
from outrider.text.pair import PairReport, check_pair

TEXTS = ["!", "a", "b", "ab", "<|endoftext|>", "<|im_end|>"]
TYPES = [1, 1, 1, 1, 3, 3]


def vocabulary(tokens: list[str] | None = None, types: list[int] | None = None, **more: Any) -> Vocabulary:
    tokens = TEXTS if tokens is None else tokens
    kinds = (types if types is not None else TYPES)[: len(tokens)]
    kinds = kinds + [int(TokenType.NORMAL)] * (len(tokens) - len(kinds))
    plain = Vocabulary(
        model="gpt2",
        pre="qwen2",
        tokens=list(tokens),
        types=np.array(kinds, dtype=np.int32),
        scores=None,
        merges=[],
        bos=4,
        eos=5,
        eot=5,
        eom=None,
        unknown=None,
        padding=4,
        fim=FimTokens(),
        add_bos=False,
        add_eos=False,
        add_space_prefix=False,
        chat_template=None,
        end_tokens=frozenset({4, 5}),
    )
    return replace(plain, **more)


def refusal(target: Vocabulary, draft: Vocabulary) -> str:
    with pytest.raises(IncompatibleModelsError) as caught:
        check_pair(target, draft)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value.message


def test_equal_vocabularies() -> None:
    assert check_pair(vocabulary(), vocabulary()) == PairReport(n_shared=6, n_target=6, n_draft=6, notes=())
    assert check_pair(vocabulary(), vocabulary()).n_padding == 0


@pytest.mark.parametrize(
    "padding", [["[PAD6]", "[PAD7]"], ["", ""], ["<unused0>", "<|reserved_special_token_1|>"], ["<pad>", "<|extra_7|>"]]
)
@pytest.mark.parametrize("larger", ["target", "draft model"])
def test_padding_beyond_the_shared_ids_is_fine(padding: list[str], larger: str) -> None:
    small, large = vocabulary(), vocabulary(TEXTS + padding)
    report = check_pair(large, small) if larger == "target" else check_pair(small, large)
    assert (report.n_shared, report.n_padding) == (6, 2)
    assert {report.n_target, report.n_draft} == {6, 8}
    assert report.notes == (f"the {larger} has 2 more entries, all padding: ids from 6 on are never drafted",)


def test_unused_entries_are_padding_whatever_their_text() -> None:
    large = vocabulary([*TEXTS, "zebra"], [*TYPES, TokenType.UNUSED])
    assert check_pair(vocabulary(), large).n_shared == 6


@pytest.mark.parametrize("extra", ["zebra", "padding", "<think>", "[INST]", "unused", "<pad", "x[PAD]"])
def test_real_entries_beyond_the_shared_ids_are_not(extra: str) -> None:
    large = vocabulary([*TEXTS, "[PAD6]", extra])
    assert f"id 7 is {extra!r} to the target, and unknown to the other model, which has 6 entries" in refusal(large, vocabulary())
    assert f"id 7 is {extra!r} to the draft model" in refusal(vocabulary(), large)


def test_different_texts_are_named() -> None:
    other = vocabulary(["!", "A", "B", "AB", "<|endoftext|>", "<|IM_END|>"])
    message = refusal(vocabulary(), other)
    assert "id 1 is 'a' to the target and 'A' to the draft model, id 2 is 'b'" in message
    assert "id 3 is 'ab' to the target and 'AB' to the draft model; 4 of 6 shared ids differ" in message
    assert "id 5" not in message  # the first few are enough


def test_texts_that_would_break_the_line_are_escaped_and_cut() -> None:
    message = refusal(vocabulary(), vocabulary(["\x1b[31m\n", "b" * 200, *TEXTS[2:]]))
    assert r"'\x1b[31m\n' to the draft model" in message
    assert len(message) < 400


def test_different_families_are_refused_though_every_text_agrees() -> None:
    assert "(gpt2/qwen2 and llama/qwen2)" in refusal(vocabulary(), vocabulary(model="llama"))
    assert "(gpt2/qwen2 and gpt2/smollm)" in refusal(vocabulary(), vocabulary(pre="smollm"))


def test_a_file_that_does_not_say_how_it_splits_text_is_given_the_benefit() -> None:
    notes = check_pair(vocabulary(), vocabulary(pre=None)).notes
    assert notes == ("the draft model does not say how it splits text; the vocabularies agree, so it is taken to be qwen2",)
    notes = check_pair(vocabulary(pre=None), vocabulary()).notes
    assert notes == ("the target does not say how it splits text; the vocabularies agree, so it is taken to be qwen2",)


@pytest.mark.parametrize(
    ("name", "what"), [("bos", "first token of a text"), ("eos", "last token of a text"), ("eot", "last token of a turn")]
)
def test_special_tokens_must_agree_where_both_are_declared(name: str, what: str) -> None:
    other = vocabulary(**{name: 1})
    mine = getattr(vocabulary(), name)
    expected = f"the {what} is id {mine} {TEXTS[mine]!r} to the target, but id 1 'a' to the draft model"
    assert refusal(vocabulary(), other) == expected
    assert check_pair(vocabulary(), vocabulary(**{name: None})).notes == (f"the draft model does not declare the {what}",)
    assert check_pair(vocabulary(**{name: None}), vocabulary()).notes == (f"the target does not declare the {what}",)


def test_control_tokens_must_agree() -> None:
    other = vocabulary(types=[1, 1, 1, 3, 3, 1])
    message = "id 3 'ab' is ordinary text to the target, but a control token to the draft model; 2 ids differ so"
    assert refusal(vocabulary(), other) == message
    assert "a control token to the target, but ordinary text to the draft model" in refusal(other, vocabulary())


def test_kinds_of_ordinary_text_may_differ() -> None:
    other = vocabulary(types=[TokenType.USER_DEFINED, TokenType.UNUSED, 1, 1, 3, 3])
    assert check_pair(vocabulary(), other).notes == ()


def test_the_real_pair_is_compatible(qwen_target_path: Path, qwen_draft_path: Path) -> None:
    target, draft = (read_vocabulary(read_header(path)) for path in (qwen_target_path, qwen_draft_path))
    assert check_pair(target, draft) == PairReport(151936, 151936, 151936, ())


def test_smollm2_and_qwen_are_refused(smollm2_path: Path, qwen_target_path: Path) -> None:
    target, draft = (read_vocabulary(read_header(path)) for path in (qwen_target_path, smollm2_path))
    message = refusal(target, draft)
    assert "(gpt2/qwen2 and gpt2/smollm)" in message
    assert "id 0 is '!' to the target and '<|endoftext|>' to the draft model" in message
