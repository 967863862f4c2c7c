"""Where a prompt comes from: the command line, a file, standard input or the bundled examples; exactly one of them."""

from __future__ import annotations

import argparse
import codecs
import re
import sys
from pathlib import Path
from typing import BinaryIO, Final

from outrider.cli.arguments import STDIN
from outrider.cli.examples import example
from outrider.cli.output import tell
from outrider.errors import ConfigError, EmptyPromptError, RequestError

MAX_BYTES: Final = 64 << 20
"""No prompt is read beyond this; it is far more than any context holds."""

_ESCAPES: Final = re.compile(r"\\(?:([nrt'\"\\])|x([0-9a-fA-F]{2}))")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def read_prompt(args: argparse.Namespace) -> str:
    """The prompt of `outrider run`.

    Raises:
        ConfigError: none or several were given, or the file cannot be read.
        RequestError: it is no UTF-8 text, or too long.
        EmptyPromptError: there is nothing in it.
    """
    loose = [word for word in args.stdin if word != STDIN]
    if loose:
        raise ConfigError(f"there is no use for {loose[0]!r} here", "give the prompt with -p TEXT, -f FILE or - for standard input")
    given = _given(args)
    if len(given) != 1:
        what = f"{' and '.join(given)} contradict each other" if given else "there is no prompt"
        raise ConfigError(what, "give exactly one of -p TEXT, -f FILE, - (standard input) and --example NAME")
    text = _read(args)
    if args.escape:
        text = unescape(text)
    if not text.strip():
        raise EmptyPromptError("the prompt is empty", "there must be something to continue or to answer")
    return text


def _given(args: argparse.Namespace) -> list[str]:
    sources = {"-p": args.prompt, "-f": args.file, STDIN: args.stdin or None, "--example": args.example}
    return [name for name, value in sources.items() if value is not None]


def _read(args: argparse.Namespace) -> str:
    if args.prompt is not None:
        return str(args.prompt)
    if args.example is not None:
        return example(args.example)
    if args.file is None or args.file == STDIN:
        return _decode(_read_stdin(), "standard input")
    try:
        with Path(args.file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"the prompt file {args.file} cannot be read: {error.strerror}", "check the name after -f") from error
    return _decode(data, str(args.file))


def _read_stdin() -> bytes:
    stream: BinaryIO | None = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise ConfigError("standard input is closed", "give the prompt with -p TEXT or -f FILE")
    if sys.stdin.isatty():
        tell("Type the prompt; Ctrl-D on an empty line ends it.")
    return stream.read(MAX_BYTES + 1)


def _decode(data: bytes, source: str) -> str:
    """UTF-8, perhaps with a byte order mark, less one final newline: the one that editors and `echo` add."""
    if len(data) > MAX_BYTES:
        raise RequestError(f"{source} has more than {MAX_BYTES >> 20} MiB", "that fits no context: give a shorter prompt")
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{source} is no UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}", "convert it to UTF-8") from error
    return text.removesuffix("\n").removesuffix("\r")


def unescape(text: str) -> str:
    r"""Turn \n, \r, \t, \', \", \\ and \xNN (a byte of UTF-8) into what they stand for; other backslashes stay."""
    data = bytearray()
    end = 0
    for match in _ESCAPES.finditer(text):
        data += text[end : match.start()].encode("utf-8", "surrogatepass")
        data += _ESCAPED.get(match[1], match[1]).encode() if match[1] else bytes([int(match[2], 16)])
        end = match.end()
    data += text[end:].encode("utf-8", "surrogatepass")
    return data.decode("utf-8", "replace")
