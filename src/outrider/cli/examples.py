"""The coding prompts that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from outrider.cli.unknown import did_you_mean
from outrider.errors import ConfigError

_FOLDER: Final = Path(__file__).parent.parent / "prompts"


def example_names() -> list[str]:
    """Names of the bundled prompts, sorted."""
    return sorted(item.stem for item in _FOLDER.glob("*.txt"))


def example(name: str) -> str:
    """The text of a bundled prompt.

    Raises:
        ConfigError: there is none of that name.
    """
    names = example_names()
    if name not in names:
        raise ConfigError(f"there is no bundled prompt {name!r}", did_you_mean(name, names, f"they are: {', '.join(names)}"))
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")
