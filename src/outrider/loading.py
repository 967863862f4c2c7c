"""From settings to a loaded pair: find the files, check them against each other, load what runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outrider.api import Loaded, Pair
from outrider.config import Settings
from outrider.errors import ConfigError
from outrider.gguf import Vocabulary, read_hyper_parameters, read_split, read_vocabulary
from outrider.llama import LlamaModel, draft_options, target_options
from outrider.llama import load as load_llama
from outrider.models.progress import Progress, SilentProgress
from outrider.models.resolve import ensure
from outrider.text.pair import check_pair
from outrider.text.template import ChatTemplate


def load(settings: Settings, progress: Callable[[str], Progress] | None = None) -> Pair:
    """Load the models that the settings name, pulling them first if need be.

    Args:
        settings: every option; `model.model` must name a target.
        progress: makes the progress report of a pull, given the model's name; silent by default.

    Raises:
        ConfigError: no target, or options that contradict each other or the machine.
        ModelFileError, UnsupportedModelError, OutOfMemoryError: a file cannot be loaded.
        IncompatibleModelsError: the two models speak different vocabularies.
        DownloadError: a model could not be pulled.
    """
    options = settings.model
    if options.model is None:
        raise ConfigError("there is no model to run", "name one with -m: a GGUF file, or a name from `outrider models list`")
    wants_draft = options.draft_model is not None and not settings.speculation.plain and settings.speculation.drafter != "none"
    report = progress or _silent
    target_path = ensure(options.model, report(options.model))
    draft_path = ensure(options.draft_model, report(options.draft_model)) if wants_draft and options.draft_model else None
    headers = _Headers.read(target_path, draft_path)
    target = load_llama(target_path, target_options(options, draft_max=settings.speculation.draft_max))
    try:
        draft = _load_draft(settings, draft_path, target)
        try:
            return Pair(_loaded(headers, target, draft, wants_template=not settings.generation.raw), settings)
        except BaseException:
            if draft is not None:
                draft.close()
            raise
    except BaseException:
        target.close()
        raise


def _silent(_name: str) -> Progress:
    return SilentProgress()


@dataclass(frozen=True, slots=True)
class _Headers:
    """What the files say about themselves, checked before anything native is loaded."""

    target: Vocabulary
    target_path: Path
    n_shared_vocab: int
    notes: tuple[str, ...]

    @staticmethod
    def read(target_path: Path, draft_path: Path | None) -> _Headers:
        target = _checked_vocabulary(target_path)
        if draft_path is None:
            return _Headers(target, target_path, 0, ())
        report = check_pair(target, _checked_vocabulary(draft_path))
        return _Headers(target, target_path, report.n_shared, tuple(report.notes))


def _checked_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a file whose whole header is sound: llama.cpp ends the process for some of those that are not."""
    split = read_split(path)
    read_hyper_parameters(split.header, split.tensors)
    return read_vocabulary(split.header)


def _load_draft(settings: Settings, path: Path | None, target: LlamaModel) -> LlamaModel | None:
    if path is None:
        return None
    return load_llama(path, draft_options(settings.model, target.capabilities.n_context))


def _loaded(headers: _Headers, target: LlamaModel, draft: LlamaModel | None, *, wants_template: bool) -> Loaded:
    vocabulary = headers.target
    template = None
    if wants_template and vocabulary.chat_template:  # a broken template must not stop --raw, which is the way around it
        bos = vocabulary.tokens[vocabulary.bos] if vocabulary.bos is not None else ""
        eos = vocabulary.tokens[vocabulary.eos] if vocabulary.eos is not None else ""
        template = ChatTemplate(vocabulary.chat_template, bos, eos, path=str(headers.target_path))
    notices = [*headers.notes, *target.notices, *(draft.notices if draft is not None else [])]
    return Loaded(target, target.tokenizer, template, draft, headers.n_shared_vocab, list(dict.fromkeys(notices)))
