"""A conversation: each turn evaluates only what it adds, on target and draft model alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from threading import Event

from outrider.errors import RequestError
from outrider.result import GenerationResult
from outrider.session import Plan, Session, TokenEvent
from outrider.text.guard import encode_guarded, guard_text
from outrider.text.template import ChatTemplate
from outrider.types import Tokens


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: `role` is "system", "user" or "assistant"."""

    role: str
    content: str


class ChatSession:
    """Turns of one conversation over a session.

    The text of a turn is appended to the tokens that the models really have in their caches, rather than encoded anew:
    a model may spell a word with other tokens than the tokenizer would, and would then have to read its own answer again.

    Args:
        session: whose caches are used; closed with this.
        template: the target's chat template.
        plan: makes the options of each turn.
        system: a system message, or None for the template's own.
    """

    def __init__(self, session: Session, template: ChatTemplate, plan: Callable[[], Plan], system: str | None = None) -> None:
        self._session = session
        self._template = template
        self._plan = plan
        self._opening = [Message("system", system)] if system else []
        self._messages = list(self._opening)
        self._rendered = ""
        self._n_prompt = 0

    @property
    def messages(self) -> list[Message]:
        """The conversation so far."""
        return list(self._messages)

    def send(self, text: str, on_token: Callable[[TokenEvent], None] | None = None, cancel: Event | None = None) -> GenerationResult:
        """Say something and generate the answer; a cancelled answer stays in the conversation as far as it got.

        Raises:
            RequestError: an empty message, or no room in the context; the conversation is as it was.
        """
        if not text.strip():
            raise RequestError("the message is empty", "type something, or /help")
        messages = [*self._messages, Message("user", text)]
        rendered = self._template.render_guarded(self._session.tokenizer, [asdict(message) for message in messages])
        prompt = self._encode(rendered)
        result = self._session.generate(prompt, self._plan(), on_token, cancel)
        self._messages = [*messages, Message("assistant", result.text)]
        self._rendered = rendered
        self._n_prompt = len(prompt)
        return result

    def reset(self) -> None:
        """Forget the conversation; the models keep what the next one shares with it."""
        self._messages = list(self._opening)
        self._rendered = ""

    def close(self) -> None:
        """Free the caches."""
        self._session.close()

    def _encode(self, rendered: str) -> Tokens:
        tokenizer = self._session.tokenizer
        if self._rendered:
            known = self._session.tokens
            answer = self._messages[-1].content
            text = self._rendered + guard_text(answer, tokenizer.special_texts)
            spelt = b"".join(map(tokenizer.piece, known[self._n_prompt :]))
            is_intact = len(known) >= self._n_prompt and spelt == answer.encode()  # not so after a stop string, or after `close`
            if is_intact and rendered.startswith(text):  # not so where a template rewrites earlier turns
                return known + encode_guarded(tokenizer, rendered[len(text) :], add_bos=False)
        return self._template.encode(tokenizer, rendered)
