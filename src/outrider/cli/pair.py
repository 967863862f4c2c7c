"""From parsed arguments to a loaded pair, with every decision said in one line."""

from __future__ import annotations

import argparse
import os
import sys

from outrider import loading
from outrider.api import Pair
from outrider.cli.arguments import COLOR_WORDS, check_sampler_sequence
from outrider.cli.display import Look
from outrider.cli.output import note, wants_style
from outrider.cli.settings import settings_from
from outrider.cli.waiting import Waiting
from outrider.config import Settings
from outrider.errors import ConfigError


def read_settings(args: argparse.Namespace) -> Settings:
    """Every option of the command line and the environment; says what of the line is ignored."""
    settings = settings_from(vars(args), os.environ)
    is_greedy = settings.sampling.temperature == 0 or settings.sampling.top_k == 1
    for notice in [*args.notices, *check_sampler_sequence(args.sampler_sequence, is_greedy=is_greedy)]:
        note(notice)
    return settings


def read_look(args: argparse.Namespace) -> Look:
    """How tokens will be shown.

    Raises:
        ConfigError: an unknown word after --color, or --show-rejected without colours.
    """
    word = args.color or ("on" if args.show_rejected else "off")
    if word not in COLOR_WORDS:
        raise ConfigError(f"--color is {word!r}", f"choose one of: {', '.join(COLOR_WORDS)}")
    if args.show_rejected and word == "off":
        raise ConfigError("--show-rejected contradicts --color off", "refused tokens are told apart by their looks: drop one of the two")
    if args.json:
        if word == "on":
            note("--color and --show-rejected do nothing with --json")
        return Look()
    color = word == "on" or (word == "auto" and wants_style(sys.stdout))
    return Look(color=color, rejected=args.show_rejected and color, safe=color or sys.stdout.isatty())


def load_pair(settings: Settings) -> Pair:
    """The models, pulled first if need be, with a sign of life on a terminal while they load."""
    with Waiting(sys.stderr, "loading the models...") as waiting:
        return loading.load(settings, waiting.progress)


def say_notices(pair: Pair) -> None:
    """What was decided or ignored while loading."""
    for notice in pair.notices:
        note(notice)
