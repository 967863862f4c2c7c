"""The error tree, and the two tables that turn an error into an exit code or an HTTP answer.

OutriderError(.hint)
├─ ConfigError                 an option, its value, or two options that contradict each other
│  └─ UnknownModelError        a name that is neither a file nor in the catalogue
├─ ModelFileError              what is wrong in a model file, at which byte, what was expected
│  └─ ModelMissingError        there is no such file, or it cannot be opened
├─ UnsupportedModelError       an architecture or tensor type that no installed backend can run
├─ IncompatibleModelsError     target and draft speak different vocabularies
├─ RequestError                a request that cannot be served as it is
│  ├─ EmptyPromptError         there is nothing to continue
│  └─ ContextLengthError       the prompt does not fit the context
├─ EngineError                 the model or the engine failed while running
│  ├─ OutOfMemoryError         no memory for weights, cache or batch
│  ├─ CacheFullError           a sequence ran out of KV cache cells
│  └─ CancelledError           the caller asked to stop
└─ DownloadError               every source tried, and why each failed
   ├─ ChecksumError            the file that arrived is not the file that was promised
   └─ DiskSpaceError           the file would not fit; nothing was written
"""

from __future__ import annotations

from typing import Final


class OutriderError(Exception):
    """Base of everything this package raises on purpose.

    Args:
        message: one line that says what is wrong.
        hint: one line that says what to do about it; "" only where nothing can be done.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


def _place(path: str, offset: int | None) -> str:
    where = path + (f" at byte {offset}" if offset is not None else "")
    return f"{where}: " if where else ""


class ConfigError(OutriderError):
    """An option has a value out of range, or contradicts another option."""


class UnknownModelError(ConfigError):
    """A model name is neither a file nor in the catalogue."""


class ModelFileError(OutriderError):
    """A model file is malformed.

    Args:
        message: what was found, and what was expected.
        hint: the way out.
        path: the file.
        offset: byte offset of the field at fault, or None where no single field is.
    """

    def __init__(self, message: str, hint: str = "", *, path: str = "", offset: int | None = None) -> None:
        super().__init__(message, hint)
        self.path = path
        self.offset = offset

    def __str__(self) -> str:
        return _place(self.path, self.offset) + super().__str__()


class ModelMissingError(ModelFileError):
    """A model file does not exist or cannot be opened."""


class UnsupportedModelError(OutriderError):
    """A sound model file that no installed backend can run.

    Args:
        message: what cannot be run.
        hint: the way out.
        path: the file, "" where the finding is not about one file.
        offset: byte offset of the field that says so, or None where no single field does.
    """

    def __init__(self, message: str, hint: str = "", *, path: str = "", offset: int | None = None) -> None:
        super().__init__(message, hint)
        self.path = path
        self.offset = offset

    def __str__(self) -> str:
        return _place(self.path, self.offset) + super().__str__()


class IncompatibleModelsError(OutriderError):
    """Target and draft disagree about what a token id means."""


class RequestError(OutriderError):
    """A single request cannot be served as it is."""


class EmptyPromptError(RequestError):
    """The prompt has no tokens, so there is nothing to continue."""


class ContextLengthError(RequestError):
    """Prompt and answer do not fit the context."""


class EngineError(OutriderError):
    """The model or the engine failed while running."""


class OutOfMemoryError(EngineError):
    """Weights, KV cache or batch did not fit in memory."""


class CacheFullError(EngineError):
    """A sequence found no free KV cache cells."""


class CancelledError(EngineError):
    """The caller asked the running pass to stop; the sequences are as they were before it."""


class DownloadError(OutriderError):
    """No source delivered the file."""


class ChecksumError(DownloadError):
    """What arrived is not what was promised."""


class DiskSpaceError(DownloadError):
    """The file would not fit on the disk; nothing was written."""


# Every class has its own code, so that a script can tell them apart. 1 is left to unexpected exceptions, 2 is also what
# argparse uses for a malformed command line, 130 is what a shell reports for Ctrl-C.
EXIT_CODES: Final[dict[type[OutriderError], int]] = {
    OutriderError: 70,
    ConfigError: 2,
    UnknownModelError: 3,
    ModelFileError: 4,
    ModelMissingError: 5,
    UnsupportedModelError: 6,
    IncompatibleModelsError: 7,
    RequestError: 8,
    EmptyPromptError: 9,
    ContextLengthError: 10,
    EngineError: 11,
    OutOfMemoryError: 12,
    CacheFullError: 13,
    DownloadError: 14,
    ChecksumError: 15,
    DiskSpaceError: 16,
    CancelledError: 130,
}

# status, OpenAI error type, OpenAI error code
HTTP_ERRORS: Final[dict[type[OutriderError], tuple[int, str, str]]] = {
    OutriderError: (500, "server_error", "internal_error"),
    ConfigError: (400, "invalid_request_error", "invalid_option"),
    UnknownModelError: (404, "invalid_request_error", "model_not_found"),
    ModelFileError: (500, "server_error", "model_file_invalid"),
    ModelMissingError: (500, "server_error", "model_file_missing"),
    UnsupportedModelError: (501, "server_error", "model_unsupported"),
    IncompatibleModelsError: (500, "server_error", "models_incompatible"),
    RequestError: (400, "invalid_request_error", "invalid_request"),
    EmptyPromptError: (400, "invalid_request_error", "empty_prompt"),
    ContextLengthError: (400, "invalid_request_error", "context_length_exceeded"),
    EngineError: (500, "server_error", "engine_error"),
    OutOfMemoryError: (503, "server_error", "out_of_memory"),
    CacheFullError: (503, "server_error", "kv_cache_full"),
    CancelledError: (499, "server_error", "cancelled"),
    DownloadError: (502, "server_error", "download_failed"),
    ChecksumError: (502, "server_error", "checksum_mismatch"),
    DiskSpaceError: (507, "server_error", "disk_full"),
}


def exit_code(error: OutriderError) -> int:
    """The process exit code for an error; exact class first, then the nearest base."""
    return next(EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES)


def http_error(error: OutriderError) -> tuple[int, dict[str, dict[str, str | None]]]:
    """HTTP status and OpenAI-style body for an error; exact class first, then the nearest base."""
    status, kind, code = next(HTTP_ERRORS[cls] for cls in type(error).__mro__ if cls in HTTP_ERRORS)
    return status, {"error": {"message": str(error), "type": kind, "code": code, "param": None}}
