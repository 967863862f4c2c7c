"""Rows about the model that a readable header describes: vocabulary, hyper-parameters, tensors, parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

from outrider.errors import ModelMissingError, UnsupportedModelError
from tests.gguf.tries import SOMEWHERE, Try, edited
from tests.gguf_files import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    LETTERS,
    STRING,
    TINY_TOKENS,
    U16,
    U32,
    U64,
    VALUE_TYPES,
    GgufFile,
    Key,
    Tensor,
    array,
    string,
    tiny_model,
)

SIGNED_MINUS_ONE = 2**32 - 1

INTEGER, NUMBER, TEXT, FLAG = "an integer", "a floating-point number", "a string", "a bool"
STRINGS, INTEGERS, NUMBERS = "an array of strings", "an array of integers", "an array of floating-point numbers"

CONSUMED = {
    # every key that is read -> what it must be; test_hardening checks that none is left out
    "general.architecture": TEXT,
    "general.name": TEXT,
    "qwen2.block_count": INTEGER,
    "qwen2.context_length": INTEGER,
    "qwen2.embedding_length": INTEGER,
    "qwen2.feed_forward_length": INTEGER,
    "qwen2.attention.head_count": INTEGER,
    "qwen2.attention.head_count_kv": INTEGER,
    "qwen2.attention.key_length": INTEGER,
    "qwen2.attention.value_length": INTEGER,
    "qwen2.attention.layer_norm_rms_epsilon": NUMBER,
    "qwen2.rope.freq_base": NUMBER,
    "qwen2.rope.dimension_count": INTEGER,
    "qwen2.rope.scaling.type": TEXT,
    "qwen2.rope.scaling.factor": NUMBER,
    "qwen2.rope.scale_linear": NUMBER,
    "qwen2.rope.scaling.attn_factor": NUMBER,
    "qwen2.rope.scaling.original_context_length": INTEGER,
    "qwen2.vocab_size": INTEGER,
    "qwen2.expert_count": INTEGER,
    "qwen2.expert_used_count": INTEGER,
    "tokenizer.ggml.model": TEXT,
    "tokenizer.ggml.pre": TEXT,
    "tokenizer.ggml.tokens": STRINGS,
    "tokenizer.ggml.token_type": INTEGERS,
    "tokenizer.ggml.scores": NUMBERS,
    "tokenizer.ggml.merges": STRINGS,
    "tokenizer.ggml.bos_token_id": INTEGER,
    "tokenizer.ggml.eos_token_id": INTEGER,
    "tokenizer.ggml.eot_token_id": INTEGER,
    "tokenizer.ggml.eom_token_id": INTEGER,
    "tokenizer.ggml.unknown_token_id": INTEGER,
    "tokenizer.ggml.padding_token_id": INTEGER,
    "tokenizer.ggml.fim_pre_token_id": INTEGER,
    "tokenizer.ggml.fim_suf_token_id": INTEGER,
    "tokenizer.ggml.fim_mid_token_id": INTEGER,
    "tokenizer.ggml.fim_pad_token_id": INTEGER,
    "tokenizer.ggml.fim_rep_token_id": INTEGER,
    "tokenizer.ggml.fim_sep_token_id": INTEGER,
    "tokenizer.ggml.prefix_token_id": INTEGER,
    "tokenizer.ggml.suffix_token_id": INTEGER,
    "tokenizer.ggml.middle_token_id": INTEGER,
    "tokenizer.ggml.add_bos_token": FLAG,
    "tokenizer.ggml.add_eos_token": FLAG,
    "tokenizer.ggml.add_space_prefix": FLAG,
    "tokenizer.chat_template": TEXT,
    "split.count": INTEGER,
}
_ACCEPTED = {TEXT: {STRING}, FLAG: {BOOL}, NUMBER: {F32, F64}, INTEGER: set(VALUE_TYPES) - {STRING, BOOL, F32, F64, ARRAY}}
_ELEMENTS = {STRINGS: {STRING}, NUMBERS: {F32}, INTEGERS: {I32}}
IDS = tuple(name for name in CONSUMED if name.endswith("_token_id"))


def type_confusion() -> Iterator[Try]:
    for name, expected in CONSUMED.items():
        for kind in VALUE_TYPES:
            if kind != ARRAY and kind not in _ACCEPTED.get(expected, ()):
                value = "1" if kind == STRING else 1
                file = edited(lambda f, n=name, k=kind, v=value: f.set(n, k, v))
                yield Try(f"{name} of type {kind}", file, f"key '{name}' is of type .*, expected", f"value {name}")
        for kind in set(VALUE_TYPES) - {ARRAY} - _ELEMENTS[expected] if expected in _ELEMENTS else _ACCEPTED[expected]:
            values = ["1"] * 12 if kind == STRING else [1] * 12
            file = edited(lambda f, n=name, k=kind, v=values: f.set(n, ARRAY, (k, v)))
            yield Try(f"{name} of arrays of type {kind}", file, f"key '{name}' is of type array of .*, expected", f"value {name}")


def hyper_parameters() -> Iterator[Try]:
    for name in ("block_count", "attention.head_count", "attention.head_count_kv", "attention.key_length", "context_length"):
        for value in (0, 1, 513, 2**32 - 1):
            harmless = name == "context_length" and value in (1, 513)
            same = (name, value) in {("block_count", 1), ("attention.head_count_kv", 1)}
            if not harmless and not same:
                file = edited(lambda f, n=name, v=value: f.set(f"qwen2.{n}", U32, v))
                yield Try(f"{name} {value}", file, "expected|do not divide|does not divide|is odd", SOMEWHERE)
    for name, value in (("rope.dimension_count", 4), ("rope.dimension_count", 1), ("expert_used_count", 2)):
        yield Try(f"{name} {value}", edited(lambda f, n=name, v=value: f.set(f"qwen2.{n}", U32, v)), name.split(".")[0], SOMEWHERE)
    file = edited(lambda f: f.set("qwen2.attention.head_count_kv", U32, 3))
    yield Try("3 heads for keys", file, "3 does not divide the 2 heads", "value qwen2.attention.head_count_kv")
    file = edited(lambda f: f.set("qwen2.embedding_length", U32, 5))
    yield Try("embedding_length 5", file, "2 heads do not divide a width of 5", "value qwen2.attention.head_count")
    file = edited(lambda f: f.drop("qwen2.attention.key_length").set("qwen2.attention.head_count", U32, 3))
    yield Try("3 heads", file, "3 heads do not divide a width of 4", "value qwen2.attention.head_count")
    for name in ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"):
        yield Try(f"without {name}", edited(lambda f, n=name: f.drop(f"qwen2.{n}")), f"key 'qwen2.{name}' is missing", None)
    yield Try("without epsilon", edited(lambda f: f.drop("qwen2.attention.layer_norm_rms_epsilon")), "rms_epsilon' is missing", None)
    for text in ("", "Qwen2", "qwen2\0", "q" * 64, "../qwen2", "qwen 2"):
        file = edited(lambda f, t=text: f.set("general.architecture", STRING, t))
        yield Try(f"architecture {text!r}", file, "'general.architecture' is", "value general.architecture")
    file = edited(lambda f: f.set("qwen2.rope.scaling.type", STRING, "other"))
    yield Try("rope scaling", file, "is 'other', expected one of none, linear", "value qwen2.rope.scaling.type")
    for name, value in (("ext_factor", 1.5), ("beta_fast", 0.0), ("beta_slow", -1.0), ("log_multiplier", -1.0), ("attn_factor", 0.0)):
        key = f"qwen2.rope.scaling.yarn_{name}"
        file = edited(lambda f, k=key, v=value: f.set("qwen2.rope.scaling.type", STRING, "yarn").set(k, F32, v))
        yield Try(f"yarn {name} {value}", file, f"yarn_{name}' is {value:g}, expected", f"value {key}")
    for name, value in (
        ("rope.freq_base", 0.0),
        ("rope.freq_base", -1.0),
        ("rope.scaling.factor", 0.0),
        ("attention.layer_norm_rms_epsilon", 2.0),
    ):
        file = edited(lambda f, n=name, v=value: f.set(f"qwen2.{n}", F32, v))
        yield Try(f"{name} {value}", file, f"{name}' is {value:g}, expected", f"value qwen2.{name}")


def shapes() -> Iterator[Try]:
    for architecture in ("llama", "qwen2", "qwen3"):
        for index, tensor in enumerate(tiny_model(architecture).tensors):
            for axis in range(len(tensor.shape)):
                for change in (-1, 1):
                    file = tiny_model(architecture)
                    wrong = [size + change * (n == axis) for n, size in enumerate(tensor.shape)]
                    file.tensors[index] = Tensor(tensor.name, tuple(wrong))
                    says = f"tensor '{tensor.name}' has shape .*, expected"
                    yield Try(f"{architecture} {tensor.name} {wrong}", file, says, f"tensor {tensor.name}")
            file = tiny_model(architecture)
            if not str(tensor.name).endswith(".bias"):
                yield Try(f"{architecture} without {tensor.name}", file.drop(str(tensor.name)), f"tensor '{tensor.name}' is missing", None)
    file = edited(lambda f: f.tensors.append(Tensor("output.weight", (12, 4))))
    yield Try("transposed output", file, r"'output.weight' has shape \[12, 4\], expected \[4, 12\]", "tensor output.weight")
    file = edited(lambda f: f.tensors.append(Tensor("blk.1.attn_norm.weight", (4,))))
    yield Try("a layer too many", file, "belongs to layer 1, but the model has 1", "tensor blk.1.attn_norm.weight")


def token_ids() -> Iterator[Try]:
    for name in IDS:
        for kind, value in ((U32, len(TINY_TOKENS)), (I32, -1), (U32, SIGNED_MINUS_ONE), (U64, 2**64 - 1)):
            file = edited(lambda f, n=name, k=kind, v=value: f.set(n, k, v))
            yield Try(f"{name} {value}", file, f"'{name}' is {value}, expected 0 to 11", f"value {name}")


def token_length() -> Iterator[Try]:
    for length in (2**31, 2**31 - 1, 2**32 - 1, 2**63):
        file = edited(lambda f, n=length: f.put(Key("tokenizer.ggml.tokens", ARRAY, array(STRING, TINY_TOKENS[:11], 12) + string("x", n))))
        yield Try(f"{length} bytes", file, f"length of entry 11 .* is {length} bytes", SOMEWHERE)


def tokens() -> Iterator[Try]:
    def replaced(*texts: str) -> GgufFile:
        return edited(
            lambda f: (
                f.set("tokenizer.ggml.tokens", ARRAY, (STRING, texts))
                .drop("tokenizer.ggml.merges")
                .set("tokenizer.ggml.model", STRING, "t5")
            )
        )

    yield Try("no tokens", replaced(), "the vocabulary is empty", "value tokenizer.ggml.tokens")
    yield Try("two of one text", replaced(*TINY_TOKENS[:11], "ab"), "tokens 3 and 11 are both 'ab'", SOMEWHERE)
    yield Try("an empty text's later name", replaced(*TINY_TOKENS[:9], "", "", "[EMPTY_9]"), "tokens 9 and 11 are both", SOMEWHERE)
    yield Try("no model", edited(lambda f: f.drop("tokenizer.ggml.model")), "'tokenizer.ggml.model' is missing", None)
    for model in ("none", "no_vocab"):
        file = edited(lambda f, m=model: f.set("tokenizer.ggml.model", STRING, m))
        yield Try(f"model {model}", file, "holds no tokenizer", "value tokenizer.ggml.model", UnsupportedModelError)
    for value in (-1, 7, 2**31 - 1):
        file = edited(lambda f, v=value: f.set("tokenizer.ggml.token_type", ARRAY, (I32, [1] * 11 + [v])))
        yield Try(f"token type {value}", file, f"type of token 11 is {value}", "value tokenizer.ggml.token_type")
    for length in (0, 11, 13):
        file = edited(lambda f, n=length: f.set("tokenizer.ggml.token_type", ARRAY, (I32, [1] * n)))
        yield Try(f"{length} token types", file, f"has {length} entries for 12 tokens", "value tokenizer.ggml.token_type")
        file = edited(lambda f, n=length: f.set("tokenizer.ggml.scores", ARRAY, (F32, [1.0] * n)))
        yield Try(f"{length} scores", file, f"has {length} entries for 12 tokens", "value tokenizer.ggml.scores")


def byte_tokens() -> Iterator[Try]:
    for text in ("<0x-1>", "<0xZZ>", "<0x1>", "<0x100>", "0x41", "<0X41>", "<0x41>x", "", "<0x\u0660\u0660>"):
        file = tiny_model().set("tokenizer.ggml.tokens", ARRAY, (STRING, [*TINY_TOKENS[:11], text]))
        file.set("tokenizer.ggml.token_type", ARRAY, (I32, [1] * 11 + [6]))
        yield Try(text, file, "token 11 is of type byte", SOMEWHERE)


def merges() -> Iterator[Try]:
    for index, text in enumerate(("x a", "a x", "b a", "ab", "", " ", "a ", " a", "a b ", "a  b")):
        values = ["a b"] * index + [text]
        file = edited(lambda f, v=values: f.set("tokenizer.ggml.merges", ARRAY, (STRING, v)))
        yield Try(repr(text), file, f"merge {index} is .* is no token", "value tokenizer.ggml.merges", shift=12 + 11 * index)
    file = edited(lambda f: f.set("tokenizer.ggml.merges", ARRAY, (STRING, ["ab", "a b c"])))
    yield Try("as many spaces as merges", file, "merge 0 is 'ab', but '' is no token", "value tokenizer.ggml.merges", shift=12)
    yield Try("none at all", edited(lambda f: f.drop("tokenizer.ggml.merges")), "'tokenizer.ggml.merges' is missing", None)


def splits() -> Iterator[Try]:
    def parts(stem: str, counts: tuple[int, ...], indices: tuple[int, ...], **second: object) -> Callable[[Path], Path]:
        def write(path: Path) -> Path:
            for index, (count, number) in enumerate(zip(counts, indices, strict=True)):
                file = tiny_model() if index == 0 else GgufFile(tensors=[Tensor(str(second.get("tensor", "more")), (4,))])
                file.set("split.count", U32, count).set("split.no", second.get("kind", U32), number)
                file.set("split.tensors.count", second.get("total_kind", U32), second.get("total", 15))
                file.write(path.with_name(f"{stem}-{index + 1:05d}-of-00002.gguf"))
            return path.with_name(f"{stem}-00001-of-00002.gguf")

        return write

    for count in (0, 1, 3, 65535):
        says = f"'split.count' is {count}, but the file's name says 2"
        yield Try(f"count {count}", parts(f"c{count}", (count, 2), (0, 1)), says, SOMEWHERE)
    yield Try("count 65536", parts("big", (65536, 2), (0, 1)), "'split.count' is 65536, expected 0 to 65535", SOMEWHERE)
    yield Try("second part's count", parts("second", (2, 3), (0, 1)), "'split.count' is 3, but the file's name says 2", SOMEWHERE)
    yield Try("index 0 twice", parts("twice", (2, 2), (0, 0)), "'split.no' is 0, but the file's name says 1", SOMEWHERE)
    yield Try("index 65535", parts("far", (2, 2), (65535, 1)), "'split.no' is 65535, but the file's name says 0", SOMEWHERE)
    yield Try("missing part", parts("half", (2,), (0,)), "part 2 of 2 cannot be read: there is no such file", None, ModelMissingError)
    yield Try("tensor count", parts("few", (2, 2), (0, 1), total=16), "'split.tensors.count' is 16, but the parts hold 15", SOMEWHERE)
    yield Try(
        "a tensor twice",
        parts("rep", (2, 2), (0, 1), tensor="output_norm.weight"),
        "tensor 'output_norm.weight' is in two parts",
        SOMEWHERE,
    )
    renamed = edited(lambda f: f.set("split.count", U16, 2))
    yield Try("renamed", renamed, "'split.count' is 2, but the file's name says 1", "value split.count")
    for kind in (F32, BOOL):
        yield Try(f"index of type {kind}", parts(f"k{kind}", (2, 2), (0, 1), kind=kind), "'split.no' is of type", SOMEWHERE)
        total = parts(f"t{kind}", (2, 2), (0, 1), total_kind=kind, total=1)
        yield Try(f"total of type {kind}", total, "'split.tensors.count' is of type", SOMEWHERE)
    for name, says in (("x-00003-of-00002.gguf", "part 3 of 2"), ("x-00000-of-00002.gguf", "part 0 of 2")):
        yield Try(name, lambda path, n=name: tiny_model().set("split.count", U16, 2).write(path.with_name(n)), says, None)


def not_finite() -> Iterator[Try]:
    for kind in (F32, F64):
        for value in (math.nan, math.inf, -math.inf):
            for name in ("attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor", "rope.scaling.attn_factor"):
                file = edited(lambda f, k=kind, n=name, v=value: f.set(f"qwen2.{n}", k, v))
                yield Try(f"{name} {value} {LETTERS[kind]}", file, f"{name}' is {value}, expected", f"value qwen2.{name}")
    for value in (math.nan, math.inf):
        file = edited(lambda f, v=value: f.set("tokenizer.ggml.scores", ARRAY, (F32, [0.0] * 11 + [v])))
        yield Try(f"score {value}", file, "entry 11 of key 'tokenizer.ggml.scores' is", "value tokenizer.ggml.scores")
