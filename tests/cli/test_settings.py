"""Options from the command line and the environment."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.cli.settings import PREFIX, all_options, settings_from
from outrider.config import Settings
from outrider.errors import ConfigError


def value_of(settings: Settings, name: str) -> Any:
    groups = (settings.model, settings.sampling, settings.speculation, settings.generation)
    return next(getattr(group, name) for group in groups if hasattr(group, name))


def test_nothing_given_means_the_defaults() -> None:
    assert settings_from({}, {}) == Settings()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("draft_max", "8", 8),
        ("draft_p_min", "0.5", 0.5),
        ("temperature", "1e-1", 0.1),
        ("model", "a b", "a b"),
        ("seed", "-1", -1),
        ("gpu_layers", "all", -1),
        ("draft_gpu_layers", "all", -1),
        ("plain", "1", True),
        ("raw", "No", False),
        ("stop", "x", ("x",)),
        ("flash_attention", "off", "off"),
    ],
)
def test_the_environment_speaks_for_every_kind_of_option(name: str, text: str, expected: object) -> None:
    settings = settings_from({}, {PREFIX + name.upper(): text})
    assert value_of(settings, name) == expected
    assert settings.origins == {name: "environment"}


def test_the_command_line_wins() -> None:
    settings = settings_from(
        {"draft_max": "4", "stop": ["a", "b"], "plain": True}, {"OUTRIDER_DRAFT_MAX": "nonsense", "OUTRIDER_STOP": "c"}
    )
    assert (settings.speculation.draft_max, settings.generation.stop, settings.speculation.plain) == (4, ("a", "b"), True)
    assert settings.origins == {"draft_max": "command line", "stop": "command line", "plain": "command line"}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OUTRIDER_DRAFT_MAX": "many"}, "OUTRIDER_DRAFT_MAX is 'many'"),
        ({"OUTRIDER_PLAIN": "maybe"}, "OUTRIDER_PLAIN is 'maybe'"),
        ({"OUTRIDER_TEMPERATURE": ""}, "OUTRIDER_TEMPERATURE is ''"),
        ({"OUTRIDER_CONTEXT": "all"}, "OUTRIDER_CONTEXT is 'all'"),
        ({"OUTRIDER_TEMPERATURE": "nan"}, "--temp is nan"),
    ],
)
def test_a_bad_variable_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from({}, variables)
    assert caught.value.message == message


def test_a_forgotten_variable_is_named_where_it_contradicts() -> None:
    with pytest.raises(ConfigError, match="--draft-min 9") as caught:
        settings_from({"draft_max": "4"}, {"OUTRIDER_DRAFT_MIN": "9"})
    assert caught.value.hint.endswith("set in the environment: OUTRIDER_DRAFT_MIN")


def test_every_option_can_be_set_by_its_preferred_flag() -> None:
    names = [name for _, name, _, _ in all_options()]
    assert len(names) == len(set(names))
    assert all(spec.flags for _, _, spec, _ in all_options())
