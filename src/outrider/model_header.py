"""A model file whose whole header has been read and found sound, before anything native sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from outrider.gguf import HyperParameters, Split, Vocabulary, read_hyper_parameters, read_split, read_vocabulary
from outrider.text.template import ChatTemplate


@dataclass(frozen=True, slots=True, eq=False)
class ModelHeader:
    """What a file says about itself.

    Attributes:
        path: the file, or any part of a split one.
        split: header and tensor table.
        parameters: its hyper-parameters.
        vocabulary: its tokens.
    """

    path: Path
    split: Split
    parameters: HyperParameters
    vocabulary: Vocabulary

    @staticmethod
    def read(path: Path) -> ModelHeader:
        """Read and check the header; llama.cpp ends the process for some files that fail here.

        Raises:
            ModelMissingError, ModelFileError, UnsupportedModelError: what is wrong with it, and where.
        """
        split = read_split(path)
        return ModelHeader(path, split, read_hyper_parameters(split.header, split.tensors), read_vocabulary(split.header))

    def chat_template(self) -> ChatTemplate | None:
        """The file's own chat template, or None. Raises ModelFileError for one that is broken."""
        vocabulary = self.vocabulary
        if not vocabulary.chat_template:
            return None
        bos = vocabulary.tokens[vocabulary.bos] if vocabulary.bos is not None else ""
        eos = vocabulary.tokens[vocabulary.eos] if vocabulary.eos is not None else ""
        return ChatTemplate(vocabulary.chat_template, bos, eos, path=str(self.path))
