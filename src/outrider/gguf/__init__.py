"""Reading the headers of GGUF files: the only place that does, and it trusts nothing."""

from outrider.gguf.header import Header, read_header
from outrider.gguf.hyper_parameters import HyperParameters, RopeParameters, YarnParameters, read_hyper_parameters
from outrider.gguf.split import Split, read_split, split_names
from outrider.gguf.string_array import StringArray
from outrider.gguf.tensor import TENSOR_TYPES, TensorInfo, TensorType
from outrider.gguf.value import Array, Value, ValueType
from outrider.gguf.vocabulary import FimTokens, TokenType, Vocabulary, read_vocabulary

__all__ = [
    "TENSOR_TYPES",
    "Array",
    "FimTokens",
    "Header",
    "HyperParameters",
    "RopeParameters",
    "Split",
    "StringArray",
    "TensorInfo",
    "TensorType",
    "TokenType",
    "Value",
    "ValueType",
    "Vocabulary",
    "YarnParameters",
    "read_header",
    "read_hyper_parameters",
    "read_split",
    "read_vocabulary",
    "split_names",
]
