"""From the words of a command line and the environment to Settings that know where each value came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from outrider.config import OPTION_GROUPS, Options, Settings, Spec, option_specs, option_types
from outrider.errors import ConfigError

PREFIX: Final = "OUTRIDER_"
"""An environment variable is this and the option's field name in capitals: OUTRIDER_DRAFT_MAX."""

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off", "")


def all_options() -> Iterator[tuple[type[Options], str, Spec, Any]]:
    """Group, field name, declaration and type of every option."""
    for group in OPTION_GROUPS:
        types = option_types(group)
        for name, spec in option_specs(group):
            yield group, name, spec, types[name]


def settings_from(given: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Settings of a run: the command line wins over the environment, and that over the defaults.

    Args:
        given: field name to what the command line said (text, or True, or a list of texts); absent where it said nothing.
        environment: usually os.environ.

    Raises:
        ConfigError: a value of the wrong kind or out of range, or options that contradict each other.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for _, name, spec, kind in all_options():
        variable = PREFIX + name.upper()
        if name in given:
            values[name] = _convert(spec.flags[0], name, kind, given[name])
            origins[name] = "command line"
        elif variable in environment:
            values[name] = _convert(variable, name, kind, environment[variable])
            origins[name] = "environment"
    try:
        settings = Settings.of(**values)
    except ConfigError as error:
        raise _with_variables(error, origins) from error
    return replace(settings, origins=origins)


def _with_variables(error: ConfigError, origins: Mapping[str, str]) -> ConfigError:
    """The same error, and which variables are set: they are easily forgotten."""
    variables = [PREFIX + name.upper() for name, origin in origins.items() if origin == "environment"]
    if not variables:
        return error
    return ConfigError(error.message, f"{error.hint}; set in the environment: {', '.join(variables)}")


def _convert(source: str, name: str, kind: Any, given: Any) -> Any:  # noqa: ANN401  # an option's value may have any type
    """One value from its text. `source` names the flag or variable in the error."""
    if kind is bool:
        return given if isinstance(given, bool) else _boolean(source, given)
    if kind == tuple[str, ...]:
        return tuple(given) if isinstance(given, list) else (given,)
    if kind in (str, str | None):
        return given
    if kind in (int, int | None):
        return _whole_number(source, name, given)
    try:
        return float(given)
    except ValueError:
        raise ConfigError(f"{source} is {given!r}", "it must be a number, such as 0.5") from None


def _whole_number(source: str, name: str, given: str) -> int:
    if name.endswith("gpu_layers") and given == "all":  # llama.cpp's word for it
        return -1
    try:
        return int(given)
    except ValueError:
        raise ConfigError(f"{source} is {given!r}", "it must be a whole number") from None


def _boolean(source: str, given: str) -> bool:
    word = given.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ConfigError(f"{source} is {given!r}", "it must be 1 or 0")
