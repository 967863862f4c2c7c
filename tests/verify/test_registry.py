"""Verifiers by name."""

from __future__ import annotations

import pytest

from outrider.config import SpeculationOptions, option_specs
from outrider.errors import ConfigError
from outrider.verify import VERIFIERS, GreedyVerifier, MatchVerifier, RejectionVerifier, make_verifier


def test_each_name_makes_its_rule() -> None:
    assert isinstance(make_verifier("greedy"), GreedyVerifier)
    assert isinstance(make_verifier("match"), MatchVerifier)
    assert isinstance(make_verifier("rejection"), RejectionVerifier)


def test_every_choice_of_the_option_exists() -> None:
    spec = dict(option_specs(SpeculationOptions))["verify"]
    assert set(spec.choices) <= set(VERIFIERS)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="greedy, match, rejection"):
        make_verifier("blocks")
