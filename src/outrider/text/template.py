"""Chat templates: from messages to the text that a model was trained on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jinja2.exceptions import TemplateError, TemplateSyntaxError

from outrider.errors import ModelFileError, RequestError
from outrider.text.budget import Budget
from outrider.text.guard import encode_guarded, guard_message
from outrider.text.sandbox import BUDGET, TemplateEnvironment
from outrider.text.tokenizer import Tokenizer
from outrider.types import Tokens

# What Python's operators and builtins raise inside a template that is wrong or hostile.
_FAILURES = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
_HINT = "pass the prompt as it is with --raw, or take a model file with another template"


@dataclass(frozen=True, slots=True)
class TemplateLimits:
    """What one template may use.

    Attributes:
        source_chars: longest template that is compiled at all.
        units: statements run, and characters and elements made, in one rendering, before the input is counted.
        units_per_input: further units for each character or element of the messages and tools.
        seconds: wall-clock time of one rendering.
    """

    source_chars: int = 1 << 16
    units: int = 1 << 23
    units_per_input: int = 64
    seconds: float = 5.0


class _RefusedError(Exception):
    """The template called `raise_exception`: it can't express this conversation."""


class ChatTemplate:
    """A model's own chat template, compiled once and rendered in a sandbox; safe to use from any thread.

    It sees what Hugging Face's `apply_chat_template` would show it: `messages`, `tools`, `documents`, `bos_token`,
    `eos_token`, `add_generation_prompt`, `raise_exception`, `strftime_now`, `tojson` without HTML escapes, `break` and
    `continue`. The file is untrusted: the template can't reach anything else, and ends at its limits.

    Args:
        source: the template, `tokenizer.chat_template` of the model file.
        bos, eos: text of the tokens that begin and end a text; "" if the model has none.
        path: the model file, for error messages.
        limits: what a rendering may use.
        now: the clock behind `strftime_now`.

    Raises:
        ModelFileError: the template is too long or not valid.
    """

    def __init__(
        self,
        source: str,
        bos: str = "",
        eos: str = "",
        *,
        path: str = "",
        limits: TemplateLimits | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.source = source
        self._bos, self._eos, self._path = bos, eos, path
        self._limits = limits or TemplateLimits()
        self._now = now
        if len(source) > self._limits.source_chars:
            raise self._error(f"the chat template has {len(source)} characters, more than the limit of {self._limits.source_chars}")
        try:
            self._template = TemplateEnvironment().compile_template(source)
        except TemplateSyntaxError as error:
            raise self._error(f"the chat template is wrong in line {error.lineno}: {_shorten(error)}") from error
        except (SyntaxError, *_FAILURES) as error:
            raise self._error(f"the chat template can't be compiled: {_shorten(error)}") from error

    def encode(self, tokenizer: Tokenizer, rendered: str) -> Tokens:
        """What `render_guarded` made, as token ids: special texts become their tokens, and the text begins as its model wants it.

        Some templates write the beginning-of-text token themselves and some leave it to the tokenizer; never are there two.
        """
        starts_itself = bool(self._bos) and rendered.startswith(self._bos)
        return encode_guarded(tokenizer, rendered, add_bos=not starts_itself)

    def render_guarded(self, tokenizer: Tokenizer, messages: Sequence[Mapping[str, object]]) -> str:
        """As `render`, for `encode`: special texts in the messages stay text. Where there are none the two are the same."""
        specials = tokenizer.special_texts
        return self.render([guard_message(message, specials) for message in messages])

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, object]] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> str:
        """The prompt's text for a conversation.

        Special texts in the messages look like the template's own here; see `render_guarded`.

        Args:
            messages: each with a "role" and, usually, a "content".
            add_generation_prompt: end with the opening of the assistant's answer.
            tools: function descriptions, for templates that know tools.
            extra: further variables (`enable_thinking`, ...); they can't replace the ones above.

        Raises:
            RequestError: a message has no role, or the template says that it can't express this conversation.
            ModelFileError: the template fails, or goes beyond its limits.
        """
        for number, message in enumerate(messages, start=1):
            if not isinstance(message.get("role"), str):
                raise RequestError(f"message {number} of the conversation has no role", 'each message needs a "role" such as "user"')
        values = [dict(message) for message in messages]
        context = {"documents": None} | dict(extra or {})
        context |= {"messages": values, "tools": tools, "add_generation_prompt": add_generation_prompt}
        context |= {"bos_token": self._bos, "eos_token": self._eos, "raise_exception": _refuse, "strftime_now": self._strftime_now}
        context[BUDGET] = self._budget((values, tools, extra))
        try:
            text: str = self._template.render(context)
        except _RefusedError as error:
            raise RequestError(
                f"the model's chat template can't express this conversation: {_shorten(error)}", "change the messages, or use --raw"
            ) from error
        except (TemplateError, *_FAILURES) as error:
            raise self._error(f"the chat template failed: {_shorten(error)}") from error
        return text

    def _budget(self, inputs: object) -> Budget:
        """A budget in proportion to the input, which is the caller's own and not the file's."""
        counter = Budget(1 << 62)
        counter.spend_on_all(inputs)
        n_input = (1 << 62) - counter.units
        return Budget(self._limits.units + self._limits.units_per_input * n_input, time.monotonic() + self._limits.seconds)

    def _strftime_now(self, pattern: str) -> str:
        return self._now().strftime(pattern[:100])

    def _error(self, message: str) -> ModelFileError:
        return ModelFileError(message, _HINT, path=self._path)


def _refuse(message: object = "") -> Any:
    raise _RefusedError(str(message))


def _shorten(error: BaseException) -> str:
    """An error's text on one line, without whatever else an untrusted file may put there."""
    text = "".join(character if character.isprintable() else " " for character in str(error)[:500])
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= 200 else text[:200] + "…"
