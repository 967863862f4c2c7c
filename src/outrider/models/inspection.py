"""What `outrider models inspect` finds out about a GGUF file, all of it from the header."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from outrider.errors import UnsupportedModelError
from outrider.gguf import Header, HyperParameters, TensorInfo, Vocabulary, read_hyper_parameters, read_split, read_vocabulary

_SPECIAL: Final = ("bos", "eos", "eot", "eom", "unknown", "padding")


@dataclass(frozen=True, slots=True)
class TypeShare:
    """Tensors of one type.

    Attributes:
        type: such as "Q4_K".
        n_tensors, n_bytes: how many, and their size together, without padding.
        share: of the bytes of all tensors, 0 to 1.
    """

    type: str
    n_tensors: int
    n_bytes: int
    share: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """A model's header, digested.

    Attributes:
        files: the file, or all parts of a split model in order.
        file_bytes: size of all of them.
        version, alignment: of the first file.
        n_keys: metadata keys of the first file.
        parameters: None for a file that is no language model.
        types: largest first.
        vocabulary: None for a file without a tokenizer.
    """

    files: tuple[Path, ...]
    file_bytes: int
    version: int
    alignment: int
    n_keys: int
    parameters: HyperParameters | None
    types: tuple[TypeShare, ...]
    vocabulary: Vocabulary | None

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors, without padding."""
        return sum(share.n_bytes for share in self.types)

    @property
    def bits_per_weight(self) -> float | None:
        """Bits that a weight takes on average; None where the number of weights is not known."""
        if self.parameters is None or not self.parameters.n_parameters:
            return None
        return 8 * self.tensor_bytes / self.parameters.n_parameters

    @property
    def special_tokens(self) -> dict[str, int]:
        """Role to token id, for the roles that the vocabulary fills."""
        if self.vocabulary is None:
            return {}
        found = {name: getattr(self.vocabulary, name) for name in _SPECIAL}
        found |= {f"fim_{name}": token for name, token in asdict(self.vocabulary.fim).items()}
        return {name: token for name, token in found.items() if token is not None}

    @property
    def chat_template(self) -> str | None:
        """Jinja source, untrusted, or None."""
        return self.vocabulary.chat_template if self.vocabulary is not None else None

    def document(self) -> dict[str, Any]:
        """Everything, for `--json`."""
        return {
            "files": [str(file) for file in self.files],
            "file_bytes": self.file_bytes,
            "version": self.version,
            "alignment": self.alignment,
            "metadata_keys": self.n_keys,
            "hyper_parameters": asdict(self.parameters) if self.parameters is not None else None,
            "tensors": {
                "count": sum(share.n_tensors for share in self.types),
                "bytes": self.tensor_bytes,
                "bits_per_weight": self.bits_per_weight,
                "types": [
                    {"type": share.type, "count": share.n_tensors, "bytes": share.n_bytes, "share": share.share} for share in self.types
                ],
            },
            "tokenizer": self._tokenizer_document(),
            "chat_template": self.chat_template,
        }

    def _tokenizer_document(self) -> dict[str, Any] | None:
        vocabulary = self.vocabulary
        if vocabulary is None:
            return None
        return {
            "family": vocabulary.model,
            "pre": vocabulary.pre,
            "size": len(vocabulary),
            "merges": len(vocabulary.merges),
            "add_bos": vocabulary.add_bos,
            "add_eos": vocabulary.add_eos,
            "special_tokens": {name: {"id": token, "text": vocabulary.tokens[token]} for name, token in self.special_tokens.items()},
            "end_tokens": [{"id": token, "text": vocabulary.tokens[token]} for token in sorted(vocabulary.end_tokens)],
        }


def inspect(path: Path) -> Inspection:
    """Read the header of a file, or those of all parts if it is one of a split model.

    Raises:
        ModelMissingError: there is no such file, or a part is missing.
        ModelFileError: the file is malformed.
        UnsupportedModelError: a version or tensor type that cannot be read.
    """
    split = read_split(path)
    header = split.header
    is_model = "general.architecture" in header.metadata
    return Inspection(
        files=tuple(Path(part.path) for part in split.parts),
        file_bytes=split.file_bytes,
        version=header.version,
        alignment=header.alignment,
        n_keys=len(header.metadata),
        parameters=read_hyper_parameters(header, split.tensors) if is_model else None,
        types=_type_shares(split.tensors),
        vocabulary=_vocabulary(header),
    )


def _vocabulary(header: Header) -> Vocabulary | None:
    if "tokenizer.ggml.model" not in header.metadata:
        return None
    try:
        return read_vocabulary(header)
    except UnsupportedModelError:  # the file says itself that it has no tokenizer
        return None


def _type_shares(tensors: Iterable[TensorInfo]) -> tuple[TypeShare, ...]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        counts[tensor.type.name] += 1
        sizes[tensor.type.name] += tensor.n_bytes
    total = sizes.total()
    return tuple(TypeShare(name, counts[name], n_bytes, n_bytes / total) for name, n_bytes in sizes.most_common())
