"""The command line's grammar, built from the declarations in config.py."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Iterator
from typing import Any, Final, Literal, NoReturn

import outrider
from outrider.cli import models as models_command
from outrider.cli.arguments import COLOR_WORDS, Flag, canonical
from outrider.cli.examples import example_names
from outrider.cli.settings import all_options
from outrider.cli.unknown import did_you_mean
from outrider.config import Options, Spec, option_default
from outrider.errors import ConfigError

DESCRIPTION: Final = """\
Runs a local language model faster without changing a single token: a small draft
model rides ahead, the target model verifies whole blocks in one pass, and only
what it would have said anyway is kept."""
EPILOG: Final = """\
example:
  outrider run -m qwen2.5-coder-1.5b -md qwen2.5-coder-0.5b --color -p "Write a binary search in Python."

Models are fetched on first use. `outrider COMMAND --help` shows a command's options."""
RUN_EPILOG: Final = """\
example:
  outrider run -m qwen2.5-coder-1.5b -md qwen2.5-coder-0.5b --example lru-cache -n 256 --color

Every option can also be set in the environment: OUTRIDER_DRAFT_MAX=8 stands for
--draft-max 8. llama.cpp's other names for these options work too, and so do its
flags that change nothing here (one line says which were ignored).
Exit codes: 0 done, 1 unexpected error, 2 wrong command line, 130 Ctrl-C;
docs/reference/errors.md lists the others."""
CURVE_EPILOG: Final = """\
example:
  outrider bench curve -m qwen2.5-coder-1.5b --context 256,2k --json curve.json

Engines take turns, pass by pass, so that a busy machine slows all of them alike. Ctrl-C
ends it after the pass that is running and keeps what is finished. Numbers are lists and
ranges, and k stands for 1024: 1..8,16,2k."""
_CURVE_OPTIONS: Final = ("model", "threads", "flash_attention", "cache_type_k", "cache_type_v")
_TITLES: Final = {
    "ModelOptions": "models and hardware",
    "SamplingOptions": "sampling",
    "SpeculationOptions": "speculation",
    "GenerationOptions": "generation",
}


class Parser(argparse.ArgumentParser):
    """argparse that raises ConfigError instead of printing its usage and leaving.

    Attributes:
        flags: where there are any, words are rewritten by `canonical` first: commands that run models have them.
    """

    flags: tuple[Flag, ...] = ()

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, f"{self.prog} --help shows how it is used")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401  # argparse's own overloads
        if not self.flags:
            return super().parse_known_args(args, namespace)
        line = canonical(args or (), self.flags)
        parsed, rest = super().parse_known_args(line.words, namespace)
        parsed.notices, parsed.sampler_sequence, parsed.words = line.notices, line.sampler_sequence, list(args or ())
        return parsed, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401  # argparse's own signature
        known = list(action.choices or ())
        if known and value not in known:
            raise ConfigError(f"there is no command {value!r}", did_you_mean(value, known, f"the commands are: {', '.join(known)}"))


class _Help(argparse.RawDescriptionHelpFormatter):
    """A short and a long name per option, whatever the number of synonyms."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        short = [name for name in action.option_strings if not name.startswith("--")][:1]
        long = [name for name in action.option_strings if name.startswith("--")][:1]
        value = f" {self._format_args(action, action.dest.upper())}" if action.nargs != 0 else ""
        return ", ".join(short + long) + value


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Parsing sets `func`, which takes the parsed arguments and returns an exit code."""
    parser: argparse.ArgumentParser = Parser(
        prog="outrider", description=DESCRIPTION, epilog=EPILOG, formatter_class=_Help, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"outrider {outrider.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_chat(commands)
    models_command.add_parser(commands)
    _add_doctor(commands)
    _add_bench(commands)
    return parser


def _add_run(commands: argparse._SubParsersAction[Any]) -> None:
    usage = "outrider run -m TARGET [-md DRAFT] (-p TEXT | -f FILE | - | --example NAME) [options]"
    parser = _model_parser(commands, "run", "answer one prompt", usage, RUN_EPILOG)
    prompt = parser.add_argument_group("prompt, exactly one of")
    prompt.add_argument("-p", "--prompt", metavar="TEXT", help="this text")
    prompt.add_argument("-f", "--file", metavar="FILE", help="the text of a file, without a final newline")
    prompt.add_argument("stdin", metavar="-", nargs="*", help="standard input, without a final newline")
    prompt.add_argument("--example", metavar="NAME", help=f"a bundled coding prompt: {', '.join(example_names())}")
    _add_text_options(parser)
    _add_display(parser)
    _add_options(parser)
    _finish(parser, _run)


def _add_chat(commands: argparse._SubParsersAction[Any]) -> None:
    usage = "outrider chat -m TARGET [-md DRAFT] [options]"
    parser = _model_parser(commands, "chat", "talk to a model", usage, None)
    _add_text_options(parser, escapes=False)
    _add_display(parser)
    _add_options(parser)
    _finish(parser, _chat)


def _add_doctor(commands: argparse._SubParsersAction[Any]) -> None:
    usage = "outrider doctor [-m TARGET] [-md DRAFT] [options]"
    parser = _model_parser(commands, "doctor", "show what is installed, and whether a pair would speculate", usage, None)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    _add_options(parser)
    _finish(parser, _doctor)


def _add_bench(commands: argparse._SubParsersAction[Any]) -> None:
    bench = commands.add_parser("bench", help="measure this machine and a model", description="Measure this machine and a model.")
    inside = bench.add_subparsers(metavar="COMMAND", required=True)
    usage = "outrider bench curve -m TARGET [options]"
    parser = _model_parser(inside, "curve", "time passes over 1 to many rows, beside what they must cost", usage, CURVE_EPILOG)
    what = parser.add_argument_group("what is timed")
    rows, prompt_rows = "1..17,24,32,33,48,64", "128,256,512"
    rows_help = f"rows of a pass, all with logits; `none` for none (default {rows})"
    what.add_argument("--rows", metavar="LIST", default=rows, help=rows_help)
    prompt_help = f"rows of a pass over a prompt: only the last has logits; `none` for none (default {prompt_rows})"
    what.add_argument("--prompt-rows", metavar="LIST", default=prompt_rows, help=prompt_help)
    context_help = "tokens before the pass (default 256)"
    what.add_argument("-c", "--context", "--ctx-size", dest="contexts", metavar="LIST", default="256", help=context_help)
    what.add_argument("--backend", dest="engines", metavar="NAME", help="native, llama or both; by default those that are installed")
    what.add_argument("--isa", metavar="NAME", help="instruction set of the native engine, as OUTRIDER_ISA; the best by default")
    how = parser.add_argument_group("how")
    how.add_argument("--repeat", metavar="N", help="rounds for each context (default 5)")
    how.add_argument("--seconds", metavar="S", help="begin rounds for so long instead; one for each context at least")
    how.add_argument("--cpu-time", action="store_true", help="one thread, timed by its CPU time: for machines that others use too")
    how.add_argument("--json", dest="json_file", metavar="FILE", help="write all figures and where they come from; - is standard output")
    _add_options(parser, _CURVE_OPTIONS)
    _finish(parser, _curve)


def _model_parser(commands: argparse._SubParsersAction[Any], name: str, purpose: str, usage: str, epilog: str | None) -> Parser:
    description = f"{purpose[0].upper()}{purpose[1:]}."
    parser: Parser = commands.add_parser(
        name, help=purpose, description=description, usage=usage, epilog=epilog, formatter_class=_Help, allow_abbrev=False
    )
    return parser


def _add_text_options(parser: argparse.ArgumentParser, *, escapes: bool = True) -> None:
    group = parser.add_argument_group("text")
    group.add_argument("-sys", "--system-prompt", metavar="TEXT", help="system message; without it the chat template has its own")
    if escapes:
        group.add_argument("-e", "--escape", action="store_true", help=r"turn \n, \t, \\, \', \" and \xNN of the prompt into characters")


def _add_display(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("display")
    group.add_argument(
        "--color",
        "-co",
        metavar="on|off|auto",
        nargs="?",
        help="colour tokens by who proposed them; the flag alone means on, even into a pipe; auto: on a terminal, unless NO_COLOR is set",
    )
    group.add_argument(
        "--show-rejected", action="store_true", help="show refused draft tokens too, dimmed and struck through; implies --color"
    )
    group.add_argument("--json", action="store_true", help="one JSON document on standard output, and nothing else there")


def _add_options(parser: argparse.ArgumentParser, only: Container[str] | None = None) -> None:
    """One argument per declared option, or for those of some fields; absent from the result where it is not given."""
    groups: dict[type[Options], argparse._ArgumentGroup] = {}
    for group, name, spec, kind in all_options():
        if only is not None and name not in only:
            continue
        if group not in groups:
            groups[group] = parser.add_argument_group(_TITLES.get(group.__name__, group.__name__))
        text = _help_text(spec, option_default(group, name))
        common: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": text.replace("%", "%%")}
        if kind is bool:
            groups[group].add_argument(*spec.flags, action="store_true", **common)
        else:
            action = "append" if spec.repeatable else "store"
            metavar = spec.metavar or name.upper()
            nargs = "?" if spec.optional_value is not None else None
            groups[group].add_argument(*spec.flags, action=action, nargs=nargs, metavar=metavar, **common)


def _help_text(spec: Spec, default: object) -> str:
    notes = []
    if default not in (None, False, (), ""):
        notes.append(f"default {default}")
    if spec.choices and spec.metavar != "|".join(spec.choices):
        notes.append(f"one of {', '.join(spec.choices)}")
    if spec.unit:
        notes.append(spec.unit)
    sentence = spec.help[0].lower() + spec.help[1:].removesuffix(".")
    return f"{sentence} ({'; '.join(notes)})" if notes else sentence


def _finish(parser: Parser, func: Callable[[argparse.Namespace], int]) -> None:
    parser.set_defaults(func=func)
    parser.flags = tuple(_flags(parser))


def _flags(parser: argparse.ArgumentParser) -> Iterator[Flag]:
    """Every option of a parser, as `canonical` wants it; read back from argparse, so that nothing is declared twice."""
    specs = [spec for _, _, spec, _ in all_options() if spec.optional_value is not None]
    optional = {spec.flags[0]: (spec.choices, spec.optional_value or "") for spec in specs}
    optional["--color"] = (COLOR_WORDS, "on")
    for action in parser._actions:  # noqa: SLF001  # argparse has no public list
        names = tuple(action.option_strings)
        if not names:
            continue
        if names[0] in optional:
            words, alone = optional[names[0]]
            yield Flag(names, "optional", words, alone)
        else:
            arity: Literal["none", "one"] = "none" if action.nargs == 0 else "one"
            yield Flag(names, arity)


# The commands' own modules are loaded when they run: --help has to be instant.


def _run(args: argparse.Namespace) -> int:
    from outrider.cli.run import run

    return run(args)


def _chat(args: argparse.Namespace) -> int:
    from outrider.cli.chat import chat

    return chat(args)


def _doctor(args: argparse.Namespace) -> int:
    from outrider.cli.doctor import doctor

    return doctor(args)


def _curve(args: argparse.Namespace) -> int:
    from outrider.cli.bench import curve

    return curve(args)
