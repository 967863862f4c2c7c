"""Special tokens that files leave undeclared, found by their text; the texts are the ones that llama.cpp goes by.

Model files seldom declare more than the first and the last token of a text. What ends a turn, and where code is filled in,
has to be told from the texts themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

END_OF_TURN: Final = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001  # DeepSeek spells it with full-width bars
    "<end_of_utterance>",
)
END_OF_MESSAGE: Final = ("<|eom_id|>",)

FIM: Final[dict[str, tuple[str, ...]]] = {
    "prefix": (
        "<|fim_prefix|>",
        "<fim-prefix>",
        "<fim_prefix>",
        "<｜fim▁begin｜>",  # noqa: RUF001
        "<PRE>",
        "▁<PRE>",
        "<|code_prefix|>",
        "<|prefix|>",
    ),
    "suffix": (
        "<|fim_suffix|>",
        "<fim-suffix>",
        "<fim_suffix>",
        "<｜fim▁hole｜>",  # noqa: RUF001
        "<SUF>",
        "▁<SUF>",
        "<|code_suffix|>",
        "<|suffix|>",
    ),
    "middle": (
        "<|fim_middle|>",
        "<fim-middle>",
        "<fim_middle>",
        "<｜fim▁end｜>",  # noqa: RUF001
        "<MID>",
        "▁<MID>",
        "<|code_middle|>",
        "<|middle|>",
    ),
    "padding": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "repository": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "separator": ("<|file_sep|>",),
}

END_OF_GENERATION: Final = (
    *END_OF_TURN,
    *END_OF_MESSAGE,
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
)


RENDERED: Final = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
"""What frames the parts of an answer in gpt-oss: shown as text, and cut out of any text, whatever the file calls it."""


def find_text(ids: Mapping[str, int], texts: tuple[str, ...]) -> int | None:
    """Id of the first text that the vocabulary has."""
    return next((ids[text] for text in texts if text in ids), None)


def end_of_generation(ids: Mapping[str, int], declared: frozenset[int]) -> frozenset[int]:
    """Every id at which a generation ends.

    Args:
        ids: text to id.
        declared: ids that end a text, turn or message for another reason than their text.
    """
    found = {text: ids[text] for text in END_OF_GENERATION if text in ids}
    harmony = "<|return|>" in found and ("<|call|>" in found or "<|calls|>" in found)
    solar = "<|flush|>" in found and ("<|call|>" in found or "<|calls|>" in found)
    ends = frozenset(found.values()) | declared
    if harmony or solar:  # there, <|end|> closes one message of several in a turn
        ends -= {found.get("<|end|>")}
    if "<|tool_response>" in found or ids.get("<|plamo:eos|>") in declared:  # there, </s> is ordinary text
        ends -= {found.get("</s>")}
    return frozenset(ends)
