"""From a GGUF file's checked header to a model that is ready."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from outrider.cpus import usable_cpus
from outrider.errors import ConfigError, ModelFileError, OutOfMemoryError, UnsupportedModelError
from outrider.gguf import HyperParameters, Split, TokenType, read_hyper_parameters, read_split, read_vocabulary
from outrider.model import Capabilities
from outrider.native import _core
from outrider.native.model import NativeModel
from outrider.native.options import CACHE_BLOCK, DEFAULT_CONTEXT, NativeOptions
from outrider.native.rope import set_rope, unsupported_rope

ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")
"""Architectures whose forward pass the core knows."""

_TENSORS: Final = re.compile(
    r"(token_embd|output|output_norm|rope_freqs|rope_factors_long|rope_factors_short)\.weight"
    r"|blk\.\d+\.((attn_norm|ffn_norm|ffn_gate|ffn_up|ffn_down|attn_q_norm|attn_k_norm)\.weight|attn_(q|k|v|output)\.(weight|bias))"
)
"""Every tensor that the forward pass reads. A file with any other means a model that would be run wrongly."""

_VECTORS: Final = re.compile(r".*(norm\.weight|\.bias|rope_freqs\.weight|rope_factors_(long|short)\.weight)")
_VECTOR_TYPES: Final = ("F32", "F16", "BF16")

_SPECIAL: Final = (TokenType.CONTROL, TokenType.USER_DEFINED)

_OTHER_BACKEND: Final = "use --backend llama"


def unsupported_reason(split: Split, parameters: HyperParameters) -> str | None:
    """Why the core cannot run this model, or None if it can."""
    if parameters.architecture not in ARCHITECTURES:
        return f"the native engine does not know the architecture '{parameters.architecture}'"
    if parameters.n_experts:
        return "the native engine does not run mixtures of experts"
    if parameters.value_size != parameters.head_size or parameters.head_size % 16 or parameters.head_size > 256:
        return f"the native engine does not run heads of {parameters.head_size} and {parameters.value_size} values"
    if parameters.n_embedding % 16 or parameters.n_ff % 16:
        return f"the native engine does not run rows of {parameters.n_embedding} and {parameters.n_ff} values: 16 must divide them"
    return unsupported_rope(split, parameters) or _unsupported_tensor(split)


def _unsupported_tensor(split: Split) -> str | None:
    known = set(_core.supported_types())
    for tensor in split.tensors:
        if not _TENSORS.fullmatch(tensor.name):
            return f"the native engine has no use for the tensor '{tensor.name}'"
        is_known = tensor.type.name in _VECTOR_TYPES if _VECTORS.fullmatch(tensor.name) else tensor.type.id in known
        if not is_known:
            return f"the native engine does not know the type {tensor.type.name} of tensor '{tensor.name}'"
    return None


def load(path: Path, options: NativeOptions | None = None) -> NativeModel:
    """Load a GGUF file into panels.

    Args:
        path: the file, or the first part of a split one.
        options: how.

    Raises:
        ModelMissingError, ModelFileError: the file.
        UnsupportedModelError: a sound file that the core cannot run; the message says what it lacks.
        ConfigError: an instruction set that this CPU lacks, or a cache type that the model's heads do not fit.
        OutOfMemoryError: the weights don't fit.
    """
    split = read_split(path)
    return load_checked(split, read_hyper_parameters(split.header, split.tensors), options or NativeOptions())


def load_checked(split: Split, parameters: HyperParameters, options: NativeOptions) -> NativeModel:
    """As `load`, for a file whose header has been read and checked already."""
    reason = unsupported_reason(split, parameters)
    if reason is not None:
        raise UnsupportedModelError(reason, _OTHER_BACKEND)
    if options.instruction_set and options.instruction_set not in _core.instruction_sets():
        available = ", ".join(_core.instruction_sets())
        raise ConfigError(f"instruction set '{options.instruction_set}' cannot run here", f"this CPU has {available}")
    _check_cache(parameters, options)
    n_context = _context(parameters, options)
    threads = options.threads or usable_cpus()
    path = Path(split.header.path)
    paths = [part.path for part in split.parts]
    head_rows = _head_rows(split, options.head_tokens, parameters.n_vocab)
    try:
        engine = _core.load(
            paths,
            _table(split),
            _core_parameters(split, parameters, n_context),
            threads,
            n_context,
            options.n_sequences,
            options.instruction_set,
            head_rows,
            options.cache_type_k,
            options.cache_type_v,
        )
    except MemoryError:
        raise OutOfMemoryError(f"{path.name} does not fit into memory", "use a smaller model or quantisation") from None
    except (ValueError, RuntimeError) as error:
        raise ModelFileError(str(error), "fetch the file again", path=str(path)) from None
    return NativeModel(
        engine,
        Capabilities(
            n_vocab=parameters.n_vocab,
            n_context=n_context,
            max_rows=options.max_rows,
            max_sequences=options.n_sequences,
            tree=True,
            deferred_head=True,
            bit_exact=True,
            rollback="truncate",
            backend="native",
            device=f"cpu ({engine.isa}, {threads} threads)",
            cache_type_k=options.cache_type_k,
            cache_type_v=options.cache_type_v,
        ),
    )


def _check_cache(parameters: HyperParameters, options: NativeOptions) -> None:
    word = next((word for word in (options.cache_type_k, options.cache_type_v) if word != "f16"), None)
    if word is not None and parameters.head_size % CACHE_BLOCK:
        raise ConfigError(
            f"cache type {word} needs heads of a multiple of {CACHE_BLOCK} values, and this model's have {parameters.head_size}",
            "use f16 for -ctk and -ctv",
        )


def _context(parameters: HyperParameters, options: NativeOptions) -> int:
    trained = parameters.n_context_train
    asked = options.n_context or min(trained, DEFAULT_CONTEXT)
    return min(asked, trained) if options.cap_context else asked


def _head_rows(split: Split, head_tokens: int, n_vocab: int) -> list[tuple[int, int]]:
    """The first tokens and every special one, as rising ranges; [] for the whole vocabulary."""
    if not 0 < head_tokens < n_vocab:
        return []
    types = read_vocabulary(split.header).types
    special = [token for token in range(head_tokens, n_vocab) if types[token] in _SPECIAL]
    return [(0, head_tokens), *((token, token + 1) for token in special)]


def _table(split: Split) -> list[tuple[str, int, list[int], int, int, int]]:
    return [
        (tensor.name, tensor.type.id, list(tensor.shape), tensor.offset, tensor.n_bytes, part_index)
        for part_index, part in enumerate(split.parts)
        for tensor in part.tensors
    ]


def _core_parameters(split: Split, parameters: HyperParameters, n_context: int) -> _core.HyperParameters:
    hyper = _core.HyperParameters()
    hyper.layers = parameters.n_layers
    hyper.embedding = parameters.n_embedding
    hyper.feed_forward = parameters.n_ff
    hyper.heads = parameters.n_heads
    hyper.kv_heads = parameters.n_kv_heads
    hyper.head = parameters.head_size
    hyper.context = parameters.n_context_train
    hyper.vocabulary = parameters.n_vocab
    hyper.epsilon = parameters.rms_epsilon
    set_rope(hyper, split, parameters, n_context)
    # None of ARCHITECTURES has windowed layers, and llama.cpp reads no `sliding_window` for them: such a key changes nothing here either.
    hyper.window = 0
    return hyper
