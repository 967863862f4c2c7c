"""`outrider run`: one prompt, one answer, and what it cost."""

from __future__ import annotations

import argparse
import sys

from outrider.api import Pair
from outrider.chat import Message
from outrider.cli.display import Look, TokenPrinter, legend
from outrider.cli.interrupt import StopOnInterrupt
from outrider.cli.output import print_json, tell
from outrider.cli.pair import load_pair, read_look, read_settings, say_notices
from outrider.cli.prompt import read_prompt
from outrider.cli.report import print_statistics
from outrider.errors import EXIT_CODES, CancelledError, ConfigError
from outrider.result import GenerationResult


def run(args: argparse.Namespace) -> int:
    """Answer one prompt; 130 if Ctrl-C cut the answer short."""
    settings = read_settings(args)
    if args.system_prompt is not None and settings.generation.raw:
        raise ConfigError("--system-prompt contradicts --raw", "a raw prompt has no system message: write it into the prompt")
    look = read_look(args)
    prompt = _messages(read_prompt(args), args.system_prompt)
    with load_pair(settings) as pair, StopOnInterrupt() as stop:
        say_notices(pair)
        if args.json:
            print_json(pair.generate(prompt, cancel=stop.cancel).document())
        else:
            print_statistics(_stream(pair, prompt, look, stop))
    return EXIT_CODES[CancelledError] if stop.interrupted else 0


def _messages(prompt: str, system: str | None) -> str | list[Message]:
    return prompt if system is None else [Message("system", system), Message("user", prompt)]


def _stream(pair: Pair, prompt: str | list[Message], look: Look, stop: StopOnInterrupt) -> GenerationResult:
    if look.color:
        tell(legend(look))
    with TokenPrinter(sys.stdout, look, stop.cancel.set) as printer:
        return pair.generate(prompt, on_token=printer.show, cancel=stop.cancel)
