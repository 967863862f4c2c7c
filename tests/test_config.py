"""Options check themselves when they are made: ranges, choices, NaN, and options that contradict each other."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.config import (
    OPTION_GROUPS,
    ModelOptions,
    Options,
    SamplingOptions,
    Settings,
    Spec,
    SpeculationOptions,
    option_specs,
    option_types,
)
from outrider.errors import ConfigError

ALL = [(group, name, spec) for group in OPTION_GROUPS for name, spec in option_specs(group)]
IDS = [f"{group.__name__}.{name}" for group, name, _ in ALL]
NUMBERS = [(group, name, spec) for group, name, spec in ALL if spec.minimum is not None or spec.maximum is not None]


def make(group: type[Options], name: str, value: Any) -> Options:
    # The neighbours are opened wide where a conflict would hide the range under test.
    room = {"draft_min": {"draft_max": 1024}}.get(name, {})
    return group(**{**room, name: value})


@pytest.mark.parametrize(("group", "name", "spec"), ALL, ids=IDS)
def test_every_option_is_documented(group: type[Options], name: str, spec: Spec) -> None:
    assert spec.help.endswith("."), f"{group.__name__}.{name}"
    assert all(re.fullmatch(r"-[a-z]+|--[a-z][a-z0-9-]+", flag) for flag in spec.flags)
    assert any(flag.startswith("--") for flag in spec.flags)


def test_no_flag_means_two_things() -> None:
    flags = [flag for _, _, spec in ALL for flag in spec.flags]
    assert sorted(flags) == sorted(set(flags))


@pytest.mark.parametrize("group", OPTION_GROUPS)
def test_defaults_are_valid(group: type[Options]) -> None:
    group()


@pytest.mark.parametrize(("group", "name", "spec"), NUMBERS, ids=[f"{group.__name__}.{name}" for group, name, _ in NUMBERS])
def test_numbers_keep_their_range(group: type[Options], name: str, spec: Spec) -> None:
    kind = float if float in (option_types(group)[name], *get_args(option_types(group)[name])) else int
    for bound, outward in ((spec.minimum, -1), (spec.maximum, 1)):
        if bound is None:
            continue
        make(group, name, kind(bound))
        with pytest.raises(ConfigError, match=re.escape(spec.flags[0])) as caught:
            make(group, name, kind(bound) + outward)
        assert caught.value.hint.startswith("it must be ")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "repeat_penalty", "presence_penalty"])
def test_numbers_must_be_finite(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match="finite"):
        make(SamplingOptions, name, value)


@pytest.mark.parametrize(
    ("group", "name", "spec"), [row for row in ALL if row[2].choices], ids=[i for i, r in zip(IDS, ALL, strict=True) if r[2].choices]
)
def test_choices_are_listed_when_none_fits(group: type[Options], name: str, spec: Spec) -> None:
    for word in spec.choices:
        make(group, name, word)
    with pytest.raises(ConfigError) as caught:
        make(group, name, "something else")
    assert all(word in caught.value.hint for word in spec.choices)


@given(draft_max=st.integers(0, 1024), draft_min=st.integers(0, 1024))
def test_a_draft_that_could_never_be_verified_is_refused(draft_max: int, draft_min: int) -> None:
    if 0 < draft_max < draft_min:
        with pytest.raises(ConfigError, match="--draft-min"):
            SpeculationOptions(draft_max=draft_max, draft_min=draft_min)
    else:
        SpeculationOptions(draft_max=draft_max, draft_min=draft_min)


def test_quantised_values_contradict_no_flash_attention() -> None:
    ModelOptions(cache_type_v="q8_0", flash_attention="auto")
    ModelOptions(cache_type_v="f16", flash_attention="off")
    with pytest.raises(ConfigError, match="-fa off"):
        ModelOptions(cache_type_v="q8_0", flash_attention="off")


def test_options_cannot_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        SamplingOptions().temperature = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 2**64}, ("-s is 18446744073709551616", "from -1 to 18446744073709551615")),
        ({"seed": 10**400}, ("-s is a number of 1329 bits", "from -1 to")),
        ({"max_tokens": 10**5000}, ("-n is a number of", "16777216 tokens")),
        ({"temperature": -0.5}, ("--temp is -0.5", "from 0.0 to 100.0")),
    ],
)
def test_a_number_out_of_range_is_shown_exactly(options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.of(**options)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    "options",
    [
        {"draft_max": "3"},
        {"draft_max": 2.5},
        {"temperature": "hot"},
        {"temperature": True},
        {"seed": True},
        {"plain": "no"},
        {"plain": 1},
        {"max_tokens": None},
        {"model": 5},
        {"stop": "END"},
        {"stop": (1,)},
        {"stop": None},
        {"stop": ("a", "")},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_kind_is_no_option(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Settings.of(**options)


@pytest.mark.parametrize("options", [{"temperature": 1}, {"seed": None}, {"stop": ["a", "b"]}, {"verify": "match"}], ids=str)
def test_values_of_every_kind_that_an_option_takes(options: dict[str, Any]) -> None:
    Settings.of(**options)


def test_a_context_without_room_for_an_answer() -> None:
    with pytest.raises(ConfigError, match="no room"):
        ModelOptions(context=1)
