"""The file that `--json FILE` names: whether it can be written is known at the start, and it is never half a document."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from outrider.cli.output import print_json
from outrider.errors import ConfigError, OutriderError

STDOUT: Final = "-"


class JsonFile:
    """Where a document goes; use it in a `with` block. A file that was there stays as it was until there is something to replace it.

    Args:
        name: a file, "-" for standard output, None for nowhere.

    Raises:
        ConfigError: nothing can be written there.
    """

    def __init__(self, name: str | None) -> None:
        self.is_stdout = name == STDOUT
        self._path = None if name is None or self.is_stdout else Path(name).expanduser()
        self._part: Path | None = None
        if self._path is not None:
            self._prepare(self._path)

    def __enter__(self) -> JsonFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._part is not None:
            with contextlib.suppress(OSError):
                self._part.unlink(missing_ok=True)

    def _prepare(self, path: Path) -> None:
        try:
            if path.is_dir():
                raise IsADirectoryError(21, "it is a directory")
            if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced, only written to
                return
            if path.exists() and not os.access(path, os.W_OK):
                raise PermissionError(13, "it may not be written")
            place = path.resolve()  # what a link leads to is replaced, not the link
            self._part = place.with_name(f".{place.name}.{os.getpid()}.part")
            self._part.touch()
            self._part.unlink()
        except OSError as error:
            hint = "name another file, or - for standard output"
            raise ConfigError(f"{path} cannot be written: {error.strerror}", hint) from error

    def save(self, document: Mapping[str, Any]) -> None:
        """Keep what is measured so far, in a file; standard output gets one document, from `finish`.

        Raises:
            OutriderError: the disk is full, or something like that.
        """
        if self._path is None:
            return
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            if self._part is None:
                self._path.write_text(text, encoding="utf-8")
            else:
                self._part.write_text(text, encoding="utf-8")
                self._part.replace(self._path.resolve())
        except OSError as error:
            raise OutriderError(f"{self._path} cannot be written: {error.strerror}", "write to a place with room") from error

    def finish(self, document: Mapping[str, Any]) -> None:
        """The last word. Raises as `save` and `print_json` do."""
        if self.is_stdout:
            print_json(dict(document))
        else:
            self.save(document)
