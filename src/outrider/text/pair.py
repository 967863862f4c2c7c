"""Whether two models mean the same by a token id: without that, nothing that one drafts makes sense to the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from outrider.errors import IncompatibleModelsError
from outrider.gguf import TokenType, Vocabulary

_HINT: Final = "choose a draft model of the target's own family, or leave -md out"
_HINT_SPECIAL: Final = "choose two models that were tuned alike, such as both Instruct, or leave -md out"
_SHOWN_DIFFERENCES: Final = 3
_SHOWN_CHARACTERS: Final = 30
_PADDING: Final = re.compile(r"[\[<]\|?_?(?:pad|unused|reserved|extra|dummy|empty|placeholder)[\w -]*\|?[\]>]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PairReport:
    """How two compatible vocabularies relate.

    Attributes:
        n_shared: ids below this mean the same to both models. The rest is padding of the larger one: it must never be
            drafted, nor handed to the draft model.
        n_target, n_draft: entries of each, padding included.
        notes: lines worth showing: differences that do no harm.
    """

    n_shared: int
    n_target: int
    n_draft: int
    notes: tuple[str, ...]

    @property
    def n_padding(self) -> int:
        """Entries that only the larger vocabulary has."""
        return abs(self.n_target - self.n_draft)


def check_pair(target: Vocabulary, draft: Vocabulary) -> PairReport:
    """Check that a draft model can propose tokens to a target.

    The rules: the same tokenizer family, the same text for every shared id, the same special tokens, and nothing but
    padding beyond the shared ids.

    Raises:
        IncompatibleModelsError: names the first entries that differ, with both texts.
    """
    n_shared = min(len(target), len(draft))
    _check_texts(target, draft, n_shared)
    _check_special_tokens(target, draft, n_shared)
    _check_padding("target", target, n_shared)
    _check_padding("draft model", draft, n_shared)
    return PairReport(n_shared, len(target), len(draft), tuple(_notes(target, draft, n_shared)))


def _check_texts(target: Vocabulary, draft: Vocabulary, n_shared: int) -> None:
    same_texts = target.tokens[:n_shared] == draft.tokens[:n_shared]
    same_split = target.pre == draft.pre or target.pre is None or draft.pre is None
    if target.model == draft.model and same_split and same_texts:
        return
    problem = f"target and draft model have different tokenizers ({_family(target)} and {_family(draft)})"
    if not same_texts:
        differing = [token for token in range(n_shared) if target.tokens[token] != draft.tokens[token]]
        examples = ", ".join(
            f"id {token} is {_quoted(target, token)} to the target and {_quoted(draft, token)} to the draft model"
            for token in differing[:_SHOWN_DIFFERENCES]
        )
        problem += f": {examples}; {len(differing)} of {n_shared} shared ids differ"
    raise IncompatibleModelsError(problem, _HINT)


def _check_special_tokens(target: Vocabulary, draft: Vocabulary, n_shared: int) -> None:
    for name, what in _SPECIAL.items():
        mine, other = getattr(target, name), getattr(draft, name)
        if mine is not None and other is not None and mine != other:
            message = f"the {what} is id {mine} {_quoted(target, mine)} to the target"
            raise IncompatibleModelsError(f"{message}, but id {other} {_quoted(draft, other)} to the draft model", _HINT_SPECIAL)
    is_control = target.types[:n_shared] == TokenType.CONTROL
    differing = np.flatnonzero(is_control != (draft.types[:n_shared] == TokenType.CONTROL))
    if differing.size:
        token = int(differing[0])
        kinds = ("a control token", "ordinary text")
        mine, other = kinds if is_control[token] else kinds[::-1]
        message = f"id {token} {_quoted(target, token)} is {mine} to the target, but {other} to the draft model"
        raise IncompatibleModelsError(f"{message}; {differing.size} ids differ so", _HINT_SPECIAL)


_SPECIAL: Final = {
    # field of Vocabulary: what messages call it
    "bos": "first token of a text",
    "eos": "last token of a text",
    "eot": "last token of a turn",
}


def _check_padding(name: str, vocabulary: Vocabulary, n_shared: int) -> None:
    for token in range(n_shared, len(vocabulary)):
        text = vocabulary.tokens[token]
        if text and vocabulary.types[token] != TokenType.UNUSED and not _PADDING.fullmatch(text):
            message = f"id {token} is {_quoted(vocabulary, token)} to the {name}, and unknown to the other model"
            raise IncompatibleModelsError(f"{message}, which has {n_shared} entries", _HINT)


def _notes(target: Vocabulary, draft: Vocabulary, n_shared: int) -> Iterator[str]:
    if len(target) != len(draft):
        larger = "target" if len(target) > len(draft) else "draft model"
        yield f"the {larger} has {abs(len(target) - len(draft))} more entries, all padding: ids from {n_shared} on are never drafted"
    if target.pre != draft.pre:
        silent = "target" if target.pre is None else "draft model"
        yield f"the {silent} does not say how it splits text; the vocabularies agree, so it is taken to be {target.pre or draft.pre}"
    for name, what in _SPECIAL.items():
        if (getattr(target, name) is None) != (getattr(draft, name) is None):
            silent = "target" if getattr(target, name) is None else "draft model"
            yield f"the {silent} does not declare the {what}"


def _family(vocabulary: Vocabulary) -> str:
    return f"{vocabulary.model}/{vocabulary.pre}" if vocabulary.pre is not None else vocabulary.model


def _quoted(vocabulary: Vocabulary, token: int) -> str:
    text = vocabulary.tokens[token]
    return repr(text) if len(text) <= _SHOWN_CHARACTERS else repr(text[:_SHOWN_CHARACTERS]) + "..."
