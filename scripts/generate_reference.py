"""Write docs/reference from the code: options, commands, errors and the public interface. `make docs` runs this."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import outrider
import outrider.testing
from outrider import config, errors
from outrider.cli.main import build_parser

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
OPTION_NAMES = {name for group in config.OPTION_GROUPS for name, _ in config.option_specs(group)}
OPTIONS_INTRO = """\
The same options serve `outrider run`, `outrider chat` and `outrider.load`. Each is a field of one class of `outrider.config`;
the first flag is the preferred one, the others are synonyms, most of them llama.cpp's. The environment can set them too:
`OUTRIDER_` and the field's name in capitals, so that `OUTRIDER_DRAFT_MAX=8` stands for `--draft-max 8`. A flag wins over the
environment, and `config` in the document of `--json` says where each value came from."""
ERRORS_INTRO = """\
Everything that goes wrong on purpose is an `OutriderError`: one line that says what is wrong, and a hint that says what to do
about it. The command line prints that line on standard error and leaves with the exit code; a server answers with the status
and a body in OpenAI's form. Exit code 0 is success, 1 an unexpected exception (please report it), 2 also a malformed command
line, 130 Ctrl-C."""
NOTE = "<!-- Written by scripts/generate_reference.py (`make docs`). Change the code instead. -->"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; `|` inside a cell is escaped."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """Inline code."""
    return f"`{text}`"


def first_paragraph(thing: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


# ---------------------------------------------------------------- options


def options_page() -> str:
    """Every option of `run`, `chat` and the Python interface."""
    parts = ["# Options", OPTIONS_INTRO]
    for group in config.OPTION_GROUPS:
        rows = [option_row(group, name, spec) for name, spec in config.option_specs(group)]
        parts += [f"## {group.__name__}", first_paragraph(group), table(("flags", "field", "default", "values", "meaning"), rows)]
    return "\n\n".join(parts)


def option_row(group: type[config.Options], name: str, spec: config.Spec) -> tuple[str, ...]:
    """One line of a group's table."""
    flags = ", ".join(map(code, spec.flags))
    return flags, code(name), option_default(config.option_default(group, name)), option_values(spec), spec.help


def option_default(value: object) -> str:
    """A default as a reader would type it."""
    if value is None or value == ():
        return "none"
    return {"True": "on", "False": "off"}.get(str(value), code(str(value)))


def option_values(spec: config.Spec) -> str:
    """What a value may be: a choice of words, or a range with its unit."""
    if spec.choices:
        return ", ".join(map(code, spec.choices))
    low, high = spec.minimum, spec.maximum
    if low is None and high is None:
        return "text" if spec.metavar else ""
    return f"{bound(low)} to {bound(high)} {spec.unit}".strip()


def bound(value: float | None) -> str:
    """One end of a range; whole numbers with all their digits."""
    if value is None:
        return "any"
    return str(int(value)) if value == int(value) else str(value)


# ---------------------------------------------------------------- errors


def errors_page() -> str:
    """The error tree with its two tables."""
    rows = [error_row(cls) for cls in errors.EXIT_CODES]
    head = ("class", "base", "meaning", "exit code", "HTTP status", "`type`", "`code`")
    return "\n\n".join(["# Errors and exit codes", ERRORS_INTRO, table(head, rows)])


def error_row(cls: type[errors.OutriderError]) -> tuple[str, ...]:
    """One class of the tree."""
    status, kind, word = errors.HTTP_ERRORS[cls]
    base = "" if cls is errors.OutriderError else code(cls.__mro__[1].__name__)
    return code(cls.__name__), base, first_paragraph(cls), str(errors.EXIT_CODES[cls]), str(status), code(kind), code(word)


# ---------------------------------------------------------------- commands


def commands_page() -> str:
    """Every command with its arguments, in the parser's own words."""
    parser = build_parser()
    return "\n\n".join(["# Commands", *(section for _, section in command_sections(parser, "outrider", parser.description or ""))])


def command_sections(parser: argparse.ArgumentParser, name: str, summary: str) -> Iterator[tuple[str, str]]:
    """The section of a command, then those of its subcommands."""
    parts = [f"## {code(name)}", summary, fenced(parser.usage) if parser.usage else ""]
    actions = [action for action in parser._actions if is_documented(action)]  # noqa: SLF001  # argparse has no public list
    own = [action for action in actions if action.dest not in OPTION_NAMES]
    if own:
        parts.append(table(("argument", "meaning"), [argument_row(action) for action in own]))
    if shared := [action for action in actions if action.dest in OPTION_NAMES]:
        parts.append(shared_options({action.dest: action.option_strings[0] for action in shared}))
    yield name, "\n\n".join(part for part in parts if part)
    for action in parser._actions:  # noqa: SLF001  # as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # as above
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001  # as above
            for word, child in action.choices.items():
                yield from command_sections(child, f"{name} {word}", child.description or helps.get(word, ""))


def shared_options(flags: dict[str, str]) -> str:
    """Which of the options a command takes, given field name to preferred flag."""
    if flags.keys() == OPTION_NAMES:
        return "And every one of the [options](options.md)."
    return f"And of the [options](options.md) {', '.join(map(code, flags.values()))}."


def is_documented(action: argparse.Action) -> bool:
    """Whether an argument belongs in the table: not --help, subcommands or what is hidden."""
    hidden = isinstance(action, argparse._HelpAction | argparse._SubParsersAction)  # noqa: SLF001  # as above
    return not hidden and action.help != argparse.SUPPRESS


def argument_row(action: argparse.Action) -> tuple[str, ...]:
    """Names and meaning of one argument."""
    names = ", ".join(map(code, action.option_strings)) or code(str(action.metavar or action.dest))
    return names, (action.help or "").replace("%%", "%")


# ---------------------------------------------------------------- public interface


def api_page() -> str:
    """What `import outrider` offers, and the fakes of `outrider.testing`."""
    parts = ["# Python interface", "Everything here is public; everything else may change without notice."]
    for module in (outrider, outrider.testing):
        parts += [f"## `{module.__name__}`", first_paragraph(module)]
        parts += [object_section(name, getattr(module, name)) for name in public_names(module)]
    return "\n\n".join(parts)


def public_names(module: ModuleType) -> list[str]:
    """`__all__`, or every class and function that the module itself defines."""
    own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__]
    return sorted(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def object_section(name: str, thing: Any) -> str:  # noqa: ANN401  # any public object
    """Signature and docstring of a class with its public methods, of a function, or of a constant."""
    if not callable(thing):
        return f"### {code(name)}\n\nA {code(type(thing).__name__)}."
    parts = [f"### {code(name)}", fenced(name + signature(thing)), docstring(thing)]
    if inspect.isclass(thing):
        parts += [member_section(member, value) for member, value in vars(thing).items() if is_public(member, value)]
    return "\n\n".join(part for part in parts if part)


def is_public(name: str, value: object) -> bool:
    """Whether a class member is its own, documented and not private."""
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod))


def member_section(name: str, value: Any) -> str:  # noqa: ANN401  # any class member
    """One method or property."""
    if isinstance(value, property):
        return f"**{code(name)}** (property)\n\n{docstring(value)}"
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    return f"**{code(name + signature(function))}**\n\n{docstring(function)}"


def signature(thing: Any) -> str:  # noqa: ANN401  # any callable
    """Its signature; "" for a class that has none of its own."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [
        parameter.replace(annotation=as_written(parameter.annotation)) for name, parameter in found.parameters.items() if name != "self"
    ]
    shown = found.replace(parameters=parameters, return_annotation=as_written(found.return_annotation))
    return str(shown).replace("<factory>", "...")


def as_written(annotation: object) -> object:
    """An annotation without quotation marks around it; none stays none."""
    return annotation if annotation is inspect.Signature.empty else Words(annotation)


class Words:
    """An annotation that prints as it was written: every module here keeps its annotations as strings."""

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation

    def __repr__(self) -> str:
        return str(self.annotation)


def docstring(thing: object) -> str:
    """A docstring as it stands in the code, fenced where its layout matters."""
    text = inspect.getdoc(thing) or ""
    return fenced(text) if "\n" in text else text


def fenced(text: str) -> str:
    """A block of code."""
    return f"```text\n{text}\n```"


# ---------------------------------------------------------------- files


def pages() -> dict[str, str]:
    """File name to content of every generated page."""
    texts = {"options.md": options_page(), "commands.md": commands_page(), "errors.md": errors_page(), "api.md": api_page()}
    return {name: f"{NOTE}\n\n{text}\n" for name, text in texts.items()}


def main() -> int:
    """Write the pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
