"""Hypothesis strategies that the property tests share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from outrider.config import SamplingOptions
from outrider.testing import TableModel, blend, random_table
from outrider.types import ROOT, Distribution, Draft, Logits

MASKED = -np.inf


def logit_rows(n_vocab: int) -> st.SearchStrategy[Logits]:
    """Rows with ties and masked tokens, at least one token allowed."""
    values = st.one_of(
        st.sampled_from([MASKED, -4.0, -1.0, 0.0, 1.0, 2.5]),
        st.floats(-30, 30, width=32),
    )
    rows = npst.arrays(np.float32, n_vocab, elements=values)
    return rows.filter(lambda row: bool(np.isfinite(row).any()))


@st.composite
def distributions(draw: st.DrawFn, n_vocab: int) -> Distribution:
    """Sparse distributions: one-hot, uniform, lopsided (down to 1e-9), any support."""
    ids = sorted(draw(st.sets(st.integers(0, n_vocab - 1), min_size=1)))
    weights = np.array(draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 3.7, 0.1, 1e-3, 1e-9]), min_size=len(ids), max_size=len(ids))))
    return Distribution(np.array(ids, dtype=np.int64), weights / weights.sum())


@st.composite
def drafts(draw: st.DrawFn, n_vocab: int, max_nodes: int = 6, *, tree: bool = True) -> Draft:
    """Deterministic drafts; with `tree`, branched anywhere and with equal siblings now and then."""
    tokens = draw(st.lists(st.integers(0, n_vocab - 1), max_size=max_nodes))
    parents = [draw(st.integers(ROOT, node - 1)) if tree else node - 1 for node in range(len(tokens))]
    sources = draw(st.lists(st.sampled_from(["model", "suffix"]), min_size=len(tokens), max_size=len(tokens)))
    n_nodes = len(tokens)
    return Draft(tuple(tokens), tuple(parents), tuple(sources), (None,) * n_nodes, (1.0,) * n_nodes)


def sampling_options(*, greedy: bool = False, penalties: bool = True) -> st.SearchStrategy[SamplingOptions]:
    """Sampler chains, each rule on or off."""
    off = {"repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    rules = {
        "repeat_penalty": st.sampled_from([1.0, 1.3, 0.8]),
        "presence_penalty": st.sampled_from([0.0, 0.7, -0.5]),
        "frequency_penalty": st.sampled_from([0.0, 0.4]),
        "penalty_last_n": st.sampled_from([0, 1, 3, 64]),
    }
    return st.builds(
        SamplingOptions,
        temperature=st.just(0.0) if greedy else st.sampled_from([0.3, 0.8, 1.0, 2.0]),
        top_k=st.sampled_from([0, 1, 2, 3, 40]),
        top_p=st.sampled_from([1.0, 0.95, 0.6, 0.0]),
        min_p=st.sampled_from([0.0, 0.05, 0.3]),
        **(rules if penalties else {name: st.just(value) for name, value in off.items()}),
    )


@dataclass(frozen=True)
class FixedSettings:
    """Arguments of a FixedPolicy that don't contradict each other."""

    draft_max: int
    draft_p_min: float
    draft_min: int


@st.composite
def fixed_settings(draw: st.DrawFn, longest: int = 8) -> FixedSettings:
    """Every rule on or off; 0 tokens now and then."""
    draft_max = draw(st.integers(0, longest))
    p_min = draw(st.sampled_from([0.0, 0.2, 0.5, 0.75, 1.0]))
    return FixedSettings(draft_max, p_min, draw(st.integers(0, draft_max)))


@dataclass(frozen=True)
class Pair:
    """A target and a draft model of the same vocabulary that agree more or less often."""

    target: TableModel
    draft: TableModel
    n_vocab: int


@st.composite
def model_pairs(draw: st.DrawFn, min_vocab: int = 2, max_vocab: int = 6, n_context: int = 64) -> Pair:
    """Pairs from the very same model to unrelated ones."""
    n_vocab = draw(st.integers(min_vocab, max_vocab))
    sharpness = draw(st.sampled_from([0.5, 2.0, 6.0]))
    own = random_table(n_vocab, seed=draw(st.integers(0, 50)), sharpness=sharpness)
    other = random_table(n_vocab, seed=draw(st.integers(51, 99)), sharpness=sharpness)
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    target = TableModel(own, n_vocab, n_context=n_context)
    draft = TableModel(blend(own, other, share), n_vocab, n_context=n_context)
    return Pair(target, draft, n_vocab)


def prompts(n_vocab: int, max_size: int = 6) -> st.SearchStrategy[list[int]]:
    """At least one token."""
    return st.lists(st.integers(0, n_vocab - 1), min_size=1, max_size=max_size)
