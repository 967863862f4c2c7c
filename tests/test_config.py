"""Options check themselves when they are made: ranges, choices, NaN, and options that contradict each other."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.config import OPTION_GROUPS, ModelOptions, Options, SamplingOptions, Spec, SpeculationOptions, option_specs, option_types
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
