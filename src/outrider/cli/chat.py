"""`outrider chat`: a conversation on a terminal, or from a script on standard input."""

from __future__ import annotations

import argparse
import sys
from pathlib import PurePath
from typing import Any

from outrider.chat import ChatSession
from outrider.cli.display import Look, TokenPrinter, legend
from outrider.cli.interrupt import StopOnInterrupt
from outrider.cli.messages import COMMANDS, Messages
from outrider.cli.output import print_json, report, tell, wants_style, write
from outrider.cli.pair import load_pair, read_look, read_settings, say_notices
from outrider.cli.report import print_dimmed, print_statistics
from outrider.cli.statistics import summary
from outrider.cli.unknown import did_you_mean
from outrider.errors import ConfigError, ContextLengthError, RequestError
from outrider.result import GenerationResult
from outrider.text.visible import visible

HELP = """\
/help    this
/reset   forget the conversation
/stats   the last answer's statistics
/exit    leave; so does Ctrl-D
Ctrl-C stops an answer. A \\ at the end of a line, or \"\"\" before and after, makes a message of several lines.
A message that begins with a space is never a command."""


def chat(args: argparse.Namespace) -> int:
    """Talk until the input ends."""
    settings = read_settings(args)
    if settings.generation.raw:
        raise ConfigError("--raw contradicts `outrider chat`", "a chat needs the chat template; `outrider run --raw` does without")
    look = read_look(args)
    name = PurePath(settings.model.model or "").name.removesuffix(".gguf")
    with load_pair(settings) as pair:
        say_notices(pair)
        talk = _Talk(pair.chat(args.system_prompt), name, look, as_json=args.json)
        try:
            talk.run()
        finally:
            talk.close()
    return 0


class _Talk:
    """One conversation between whoever types and the model.

    Args:
        session: the model's side; closed with this.
        name: what the model is called.
        look: how its tokens are shown.
        as_json: say nothing, and print all turns as one document at the end.
    """

    def __init__(self, session: ChatSession, name: str, look: Look, *, as_json: bool) -> None:
        self._session = session
        self._name = name
        self._look = look
        self._as_json = as_json
        self._messages = Messages(sys.stdin, sys.stdout, label=self._label("you"), is_silent=as_json)
        self._last: GenerationResult | None = None
        self._turns: list[dict[str, Any]] = []

    def run(self) -> None:
        """Answer every message."""
        if self._messages.is_interactive and not self._as_json:
            print_dimmed([f"Talking to {visible(self._name)}. /help lists the commands; Ctrl-D leaves."])
        if self._look.color:
            tell(legend(self._look))
        try:
            self._answer_all()
        except KeyboardInterrupt:
            self._print_turns()
            raise
        self._print_turns()

    def close(self) -> None:
        """Free the caches."""
        self._session.close()

    def _answer_all(self) -> None:
        for message in self._messages:
            if message in ("/exit", "/quit"):
                break
            if message.startswith("/"):
                self._command(message)
            else:
                self._turn(message.removeprefix(" "))

    def _print_turns(self) -> None:
        if self._as_json:
            print_json({"turns": self._turns})

    def _command(self, message: str) -> None:
        word = message.split(maxsplit=1)[0]
        if word == "/help":
            print_dimmed(HELP.splitlines())
        elif word == "/reset":
            self._session.reset()
            print_dimmed(["The conversation is forgotten."])
        elif word == "/stats" and self._last is not None:
            print_statistics(self._last)
        elif word == "/stats":
            print_dimmed(["There is no answer yet."])
        else:
            hint = did_you_mean(word, COMMANDS, "/help lists the commands.")
            print_dimmed([f"There is no command {visible(word)}: {hint} To say it to the model, begin with a space."])

    def _turn(self, message: str) -> None:
        try:
            with StopOnInterrupt() as stop:
                result = self._answer(message, stop)
        except RequestError as error:  # the conversation is as it was: say why, and go on
            if isinstance(error, ContextLengthError):
                error = ContextLengthError(error.message, "say it in fewer words, /reset the conversation, or start again with a larger -c")
            code = report(error, as_json=False)
            self._turns.append({"message": message, "error": {"type": type(error).__name__, "message": error.message, "exit_code": code}})
            return
        self._last = result
        self._turns.append({"message": message, **result.document()})
        if not self._as_json:
            print_dimmed([f"  {summary(result)}"])
            write(sys.stdout, "\n")

    def _answer(self, message: str, stop: StopOnInterrupt) -> GenerationResult:
        if self._as_json:
            return self._session.send(message, cancel=stop.cancel)
        write(sys.stdout, self._label(visible(self._name)))
        with TokenPrinter(sys.stdout, self._look, stop.cancel.set, is_mid_line=True) as printer:
            return self._session.send(message, on_token=printer.show, cancel=stop.cancel)

    def _label(self, speaker: str) -> str:
        bold, plain = ("\x1b[1m", "\x1b[0m") if wants_style(sys.stdout) else ("", "")
        return f"{bold}{speaker}>{plain} "
