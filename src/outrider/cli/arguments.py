"""From the words of a command line to canonical ones: unknown flags are caught, llama.cpp's are taken or explained.

argparse alone would read `-ngk 3` as `-n gk 3`, take `-` after `-fa` as its value, and refuse a prompt that begins with a dash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from outrider.cli.llamacpp import ELSEWHERE, FOREIGN, OUR_SEQUENCE, RAW, SAMPLER_SEQUENCE
from outrider.cli.unknown import did_you_mean
from outrider.errors import ConfigError

STDIN: Final = "-"
COLOR_WORDS: Final = ("on", "off", "auto")


@dataclass(frozen=True, slots=True)
class Flag:
    """One option as the command line sees it.

    Attributes:
        names: all spellings, the preferred one first.
        arity: "none" for a switch, "one" for a value, "optional" for a value that may be left out.
        words: with "optional", the words that count as its value.
        alone: with "optional", what the flag means without a value.
    """

    names: tuple[str, ...]
    arity: Literal["none", "one", "optional"]
    words: tuple[str, ...] = ()
    alone: str = ""


@dataclass(slots=True)
class Canonical:
    """A command line in canonical words.

    Attributes:
        words: `--flag=value` and `--flag`, by preferred names; then what is no flag.
        notices: one line for each option that is ignored, and why.
        sampler_sequence: value of llama.cpp's --sampling-seq, which only makes sense beside the other options.
    """

    words: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    sampler_sequence: str | None = None


def canonical(words: Sequence[str], flags: Iterable[Flag]) -> Canonical:
    """Rewrite the words after a command's name.

    Raises:
        ConfigError: an unknown flag, or a missing or superfluous value.
    """
    return _Rewriter(words, flags).rewrite()


class _Rewriter:
    def __init__(self, words: Sequence[str], flags: Iterable[Flag]) -> None:
        self._rest: Iterator[str] = iter(words)
        self._flags = {name: flag for flag in flags for name in flag.names}
        self._next: list[str] = []
        self._out = Canonical()

    def rewrite(self) -> Canonical:
        loose: list[str] = []
        while (word := self._take()) is not None:
            if word == "--":
                loose += [*self._next, *self._rest]
            elif word == STDIN or not word.startswith("-"):
                loose.append(word)
            else:
                self._flag(word)
        self._out.words += loose
        return self._out

    def _take(self) -> str | None:
        return self._next.pop() if self._next else next(self._rest, None)

    def _flag(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
        given = value if equals else None
        if name in SAMPLER_SEQUENCE:
            self._out.sampler_sequence = self._value(name, given)
        elif name in FOREIGN:
            self._ignore(name, given)
        elif name in RAW:
            self._out.words.append("--raw")
        elif name in self._flags:
            self._ours(name, self._flags[name], given)
        else:
            raise self._unknown(word, name)

    def _ours(self, name: str, flag: Flag, given: str | None) -> None:
        preferred = flag.names[0]
        if flag.arity == "none":
            if given is not None:
                raise ConfigError(f"{name} takes no value, and got {given!r}", f"give {name} alone, or leave it out")
            self._out.words.append(preferred)
        elif flag.arity == "one":
            self._out.words.append(f"{preferred}={self._value(name, given)}")
        else:
            self._out.words.append(f"{preferred}={self._optional(flag, given)}")

    def _value(self, name: str, given: str | None) -> str:
        value = given if given is not None else self._take()
        if value is None:
            raise ConfigError(f"{name} needs a value", f"write it after {name}")
        return value

    def _optional(self, flag: Flag, given: str | None) -> str:
        if given is not None:
            return given
        word = self._take()
        if word in flag.words:
            return word
        if word is not None:
            self._next.append(word)
        return flag.alone

    def _ignore(self, name: str, given: str | None) -> None:
        foreign = FOREIGN[name]
        shown = name
        if foreign.arity == "one":
            shown = f"{name} {self._value(name, given)}"
        self._out.notices.append(f"{shown} is ignored: {foreign.reason}")

    def _unknown(self, word: str, name: str) -> ConfigError:
        if name in ELSEWHERE:
            return ConfigError(f"there is no option {name}", ELSEWHERE[name])
        # A short flag with its value glued on, as in -n32, is the other thing that people type.
        glued = next((known for known in sorted(self._flags, key=len, reverse=True) if self._is_glued(known, word)), None)
        if glued is not None:
            return ConfigError(f"there is no option {word}", f"did you mean {glued} {word[len(glued) :]}?")
        return ConfigError(f"there is no option {name}", did_you_mean(name, self._flags, "--help lists all options"))

    def _is_glued(self, known: str, word: str) -> bool:
        takes_value = self._flags[known].arity == "one" and not known.startswith("--")
        return takes_value and word.startswith(known) and word[len(known) :].replace(".", "", 1).isdecimal()


def check_sampler_sequence(sequence: str | None, *, is_greedy: bool) -> list[str]:
    """The notice for llama.cpp's --sampling-seq, where it only selects what happens anyway.

    Raises:
        ConfigError: it asks for another sampler chain than ours.
    """
    if sequence is None:
        return []
    if is_greedy:
        return [f"--sampling-seq {sequence} is ignored: decoding is greedy, whatever the order of samplers"]
    ours = [letter for letter in sequence if letter in OUR_SEQUENCE]
    if "".join(ours) == OUR_SEQUENCE:
        return [f"--sampling-seq {sequence} is ignored: that is the order of samplers here"]
    raise ConfigError(
        f"--sampling-seq {sequence} asks for another sampler chain than penalties, top-k, top-p, min-p, temperature",
        "leave it out, and turn samplers off one by one: --top-k 0, --top-p 1, --min-p 0",
    )
