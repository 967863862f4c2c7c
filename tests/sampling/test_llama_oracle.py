"""The sampler chain beside llama.cpp's own samplers, in the order that its tools use by default."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from outrider.config import SamplingOptions
from outrider.sampling.chain import SamplerChain
from outrider.types import Logits

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")

N_VOCAB = 1000


def theirs(logits: Logits, history: list[int], options: SamplingOptions) -> dict[int, float]:
    """What llama.cpp's chain leaves, as token id to probability (float32)."""
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    samplers = [
        llama_cpp.llama_sampler_init_penalties(
            N_VOCAB, options.penalty_last_n, options.repeat_penalty, options.frequency_penalty, options.presence_penalty
        ),
        llama_cpp.llama_sampler_init_top_k(options.top_k),
        llama_cpp.llama_sampler_init_top_p(options.top_p, 0),
        llama_cpp.llama_sampler_init_min_p(options.min_p, 0),
        llama_cpp.llama_sampler_init_temp(options.temperature),
        llama_cpp.llama_sampler_init_dist(0),  # fills in the probabilities
    ]
    for sampler in samplers:
        llama_cpp.llama_sampler_chain_add(chain, sampler)
    for token in history:
        llama_cpp.llama_sampler_accept(chain, token)
    data = (llama_cpp.llama_token_data * N_VOCAB)(*[(token, float(value), 0.0) for token, value in enumerate(logits)])
    candidates = llama_cpp.llama_token_data_array(data, N_VOCAB, -1, False)
    llama_cpp.llama_sampler_apply(chain, ctypes.byref(candidates))
    llama_cpp.llama_sampler_free(chain)
    return {candidates.data[place].id: candidates.data[place].p for place in range(candidates.size)}


def random_options(rng: np.random.Generator) -> SamplingOptions:
    return SamplingOptions(
        temperature=float(rng.choice([0.3, 0.8, 1.0, 1.7])),
        top_k=int(rng.choice([0, 5, 40, 500])),
        top_p=float(rng.choice([1.0, 0.95, 0.6])),
        min_p=float(rng.choice([0.0, 0.05, 0.2])),
        repeat_penalty=float(rng.choice([1.0, 1.3])),
        presence_penalty=float(rng.choice([0.0, 0.7])),
        frequency_penalty=float(rng.choice([0.0, 0.4])),
        penalty_last_n=int(rng.choice([0, 8, 64])),
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_chain_leaves_what_llama_cpps_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.normal(0, 3, N_VOCAB) + seed % 2 * 5).astype(np.float32)
    history = rng.integers(0, 50, 100).tolist()
    options = random_options(rng)
    ours = SamplerChain(options).distribution(logits, history)
    expected = theirs(logits, history, options)
    assert ours.ids.tolist() == sorted(token for token, probability in expected.items() if probability > 0)
    np.testing.assert_allclose(ours.probs, [expected[token] for token in ours.ids.tolist()], atol=2e-6)
