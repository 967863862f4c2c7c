"""From settings to a loaded pair: find the files, check them against each other, load what runs them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from outrider.api import Loaded, Pair
from outrider.backends import choose_backend
from outrider.config import ModelOptions, Settings
from outrider.errors import ConfigError
from outrider.model_header import ModelHeader
from outrider.models.progress import Progress, SilentProgress
from outrider.models.resolve import ensure
from outrider.text.pair import PairReport, check_pair


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
    report = progress or _silent
    names = [options.model]
    if options.draft_model is not None and not settings.speculation.plain and settings.speculation.drafter != "none":
        names.append(options.draft_model)
    paths = [ensure(name, report(name)) for name in names]
    target_file, *draft_files = files = [ModelHeader.read(path) for path in paths]
    pairing = check_pair(target_file.vocabulary, draft_files[0].vocabulary) if draft_files else None
    template = None if settings.generation.raw else target_file.chat_template()  # a broken one must not stop --raw, the way around it
    backend = choose_backend(options, files)
    with ExitStack() as undo:
        target, tokenizer = backend.load_target(target_file, options, settings.speculation.draft_max)
        undo.callback(target.close)
        draft = backend.load_draft(draft_files[0], options, target.capabilities.n_context) if draft_files else None
        if draft is not None:
            undo.callback(draft.close)
        notices = _unique([*_notes(pairing), *backend.notices, *([] if draft_files else _draft_flags(options))])
        pair = Pair(Loaded(target, tokenizer, template, draft, pairing.n_shared if pairing else 0, notices), settings)
        undo.pop_all()
    return pair


def _silent(_name: str) -> Progress:
    return SilentProgress()


def _notes(pairing: PairReport | None) -> list[str]:
    return list(pairing.notes) if pairing is not None else []


def _draft_flags(options: ModelOptions) -> list[str]:
    """What was asked of a draft model where there is none."""
    flags = (("-td", options.draft_threads), ("-ngld", options.draft_gpu_layers))
    return [f"{flag} {value} changes nothing: no draft model is used" for flag, value in flags if value]


def _unique(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(lines))
