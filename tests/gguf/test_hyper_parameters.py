"""Hyper-parameters of sound files: what is read, what has a default, and which architectures are only ranged."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.errors import ModelFileError
from outrider.gguf import HyperParameters, RopeParameters, YarnParameters, read_header, read_hyper_parameters
from tests.gguf_files import ARRAY, F32, STRING, U16, U32, U64, GgufFile, Tensor, tiny_model


def parameters(file: GgufFile, tmp_path: Path) -> HyperParameters:
    return read_hyper_parameters(read_header(file.write(tmp_path / "model.gguf")))


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_what_the_file_says(architecture: str, tmp_path: Path) -> None:
    file = tiny_model(architecture, n_layers=2)
    found = parameters(file, tmp_path)
    assert found == HyperParameters(
        architecture=architecture,
        name="Tiny",
        n_layers=2,
        n_embedding=4,
        n_heads=2,
        n_kv_heads=1,
        head_size=2,
        value_size=2,
        n_ff=6,
        n_context_train=64,
        n_vocab=12,
        n_experts=0,
        n_experts_used=0,
        rms_epsilon=pytest.approx(1e-6),
        rope=RopeParameters(10000.0, 2, "none", 1.0, 1.0, 64),
        n_parameters=sum(tensor.size // 4 for tensor in file.tensors),
    )


def test_defaults_of_absent_keys(tmp_path: Path) -> None:
    file = tiny_model("llama").drop("llama.attention.key_length").drop("llama.rope.freq_base").drop("general.name")
    found = parameters(file, tmp_path)
    assert (found.head_size, found.value_size, found.rope.base, found.name) == (2, 2, 10000.0, "")


def test_key_heads_default_to_all_heads(tmp_path: Path) -> None:
    file = tiny_model("llama").drop("llama.attention.head_count_kv")
    for kind in ("k", "v"):
        file.tensor(f"blk.0.attn_{kind}.weight").shape = (4, 4)
    assert parameters(file, tmp_path).n_kv_heads == 2


def test_scaled_rope(tmp_path: Path) -> None:
    file = tiny_model().set("qwen2.rope.scaling.type", STRING, "yarn").set("qwen2.rope.scaling.factor", F32, 4.0)
    file.set("qwen2.rope.scaling.original_context_length", U32, 16).set("qwen2.rope.scaling.attn_factor", F32, 0.5)
    assert parameters(file, tmp_path).rope == RopeParameters(10000.0, 2, "yarn", 4.0, 0.5, 16, YarnParameters())
    old = tiny_model().set("qwen2.rope.scale_linear", F32, 2.0)
    assert parameters(old, tmp_path).rope == RopeParameters(10000.0, 2, "linear", 2.0, 1.0, 64)


def test_yarn_keys(tmp_path: Path) -> None:
    file = tiny_model().set("qwen2.rope.scaling.type", STRING, "yarn")
    for index, name in enumerate(("ext_factor", "beta_fast", "beta_slow", "log_multiplier", "attn_factor")):
        file.set(f"qwen2.rope.scaling.yarn_{name}", F32, 0.5 + 0.125 * index)
    assert parameters(file, tmp_path).rope.yarn == YarnParameters(0.5, 0.625, 0.75, 0.875, 1.0)
    file.set("qwen2.rope.scaling.yarn_ext_factor", F32, -1.0)  # llama.cpp's "not set"
    assert parameters(file, tmp_path).rope.yarn == YarnParameters(1.0, 0.625, 0.75, 0.875, 1.0)
    file.set("qwen2.rope.scaling.type", STRING, "linear")
    assert parameters(file, tmp_path).rope.yarn is None


@pytest.mark.parametrize("n_context", [1, 513, 1 << 26])
def test_any_positive_context_is_read_as_it_is(n_context: int, tmp_path: Path) -> None:
    assert parameters(tiny_model().set("qwen2.context_length", U32, n_context), tmp_path).n_context_train == n_context


def test_integers_of_any_width_will_do(tmp_path: Path) -> None:
    file = tiny_model().set("qwen2.block_count", U16, 1).set("qwen2.context_length", U64, 64)
    assert parameters(file, tmp_path).n_layers == 1


def test_the_tokens_decide_over_a_stale_vocabulary_size(tmp_path: Path) -> None:
    assert parameters(tiny_model().set("qwen2.vocab_size", U32, 11), tmp_path).n_vocab == 12
    assert parameters(tiny_model().drop("tokenizer.ggml.tokens").set("qwen2.vocab_size", U32, 12), tmp_path).n_vocab == 12
    with pytest.raises(ModelFileError, match="'qwen2.vocab_size' is missing"):
        parameters(tiny_model().drop("tokenizer.ggml.tokens"), tmp_path)


def test_optional_tensors_are_checked_and_unknown_ones_left_alone(tmp_path: Path) -> None:
    file = tiny_model()
    file.tensors += [Tensor("output.weight", (4, 12)), Tensor("rope_freqs.weight", (1,)), Tensor("something.else", (7, 3))]
    file.tensors += [Tensor("blk.0.attn_norm.extra", (9,)), Tensor("blk.01.attn_q.weight", (3,))]
    assert parameters(file, tmp_path).n_layers == 1


def test_trailing_dimensions_of_one_are_no_difference(tmp_path: Path) -> None:
    file = tiny_model()
    file.tensor("output_norm.weight").shape = (4, 1, 1)
    assert parameters(file, tmp_path).n_embedding == 4


def test_fused_attention_and_experts(tmp_path: Path) -> None:
    file = tiny_model("llama").set("llama.expert_count", U32, 3).set("llama.expert_used_count", U32, 2)
    for name in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up", "ffn_down"):
        file.drop(f"blk.0.{name}.weight")
    file.tensors += [Tensor("blk.0.attn_qkv.weight", (4, 8)), Tensor("blk.0.ffn_up_exps.weight", (4, 6, 3))]
    found = parameters(file, tmp_path)
    assert (found.n_experts, found.n_experts_used) == (3, 2)
    file.tensor("blk.0.ffn_up_exps.weight").shape = (4, 6, 2)
    with pytest.raises(ModelFileError, match="embedding x ff x experts"):
        parameters(file, tmp_path)


def test_other_architectures_say_what_they_can(tmp_path: Path) -> None:
    file = GgufFile().set("general.architecture", STRING, "mamba2").set("mamba2.block_count", U32, 3)
    found = parameters(file, tmp_path)
    assert (found.architecture, found.n_layers, found.n_heads, found.n_vocab, found.rms_epsilon) == ("mamba2", 3, 0, 0, 0.0)


def test_other_architectures_may_differ_from_layer_to_layer(tmp_path: Path) -> None:
    file = GgufFile().set("general.architecture", STRING, "deci").set("deci.block_count", U32, 3)
    file.set("deci.embedding_length", U32, 64)
    file.set("deci.attention.head_count", ARRAY, (U32, [8, 0, 4])).set("deci.attention.head_count_kv", ARRAY, (U32, [2, 0, 4]))
    found = parameters(file, tmp_path)
    assert (found.n_heads, found.n_kv_heads, found.head_size) == (8, 4, 8)
    for wrong in ([8, 0], [8, 0, 1 << 20], []):
        with pytest.raises(ModelFileError, match="expected 3, each from 0 to 65536"):
            parameters(file.set("deci.attention.head_count", ARRAY, (U32, wrong)), tmp_path)


def test_a_real_model_is_what_it_says(smollm2_path: Path) -> None:
    found = read_hyper_parameters(read_header(smollm2_path))
    assert (found.architecture, found.n_layers, found.n_embedding, found.n_heads, found.n_kv_heads) == ("llama", 30, 576, 9, 3)
    assert (found.n_ff, found.n_vocab, found.n_context_train, found.n_parameters) == (1536, 49152, 8192, 134_515_008)
