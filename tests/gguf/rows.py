"""Every kind of malformed GGUF file that has hurt a parser: the rows of test_hardening, and the seeds of test_fuzz.

A row names its kind and makes tries. A try is a file, what the error must say, and at which field it must point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.gguf import rows_of_format, rows_of_model
from tests.gguf.tries import Try

ROWS: dict[str, Callable[[], Iterator[Try]]] = {
    "string length": rows_of_format.string_length,
    "number of keys or tensors": rows_of_format.counts,
    "arrays": rows_of_format.arrays,
    "n_dims": rows_of_format.dimensions,
    "product of dimensions": rows_of_format.product,
    "sum of tensor sizes": rows_of_format.sum_of_sizes,
    "padding that wraps": rows_of_format.padding,
    "zero dimension": rows_of_format.zero_dimension,
    "alignment": rows_of_format.alignment,
    "tensor type": rows_of_format.tensor_type,
    "row not a multiple of the block": rows_of_format.block,
    "offset and size past the end": rows_of_format.past_the_end,
    "truncated at any byte": rows_of_format.truncated,
    "shrunk after opening": rows_of_format.shrunk,
    "misaligned, overlapping, out of order": rows_of_format.layout,
    "duplicate keys or names": rows_of_format.duplicates,
    "names": rows_of_format.names,
    "type confusion of a consumed key": rows_of_model.type_confusion,
    "hyper-parameters": rows_of_model.hyper_parameters,
    "tensor shape against hyper-parameters": rows_of_model.shapes,
    "token ids beyond the vocabulary": rows_of_model.token_ids,
    "token piece length": rows_of_model.token_length,
    "tokens at odds with each other": rows_of_model.tokens,
    "byte tokens": rows_of_model.byte_tokens,
    "merges that name unknown tokens": rows_of_model.merges,
    "error in the middle": rows_of_format.middle,
    "version and byte order": rows_of_format.versions,
    "not a model at all": rows_of_format.not_a_model,
    "split files": rows_of_model.splits,
    "NaN or infinite numbers": rows_of_model.not_finite,
    "header of absurd size": rows_of_format.header_size,
}
