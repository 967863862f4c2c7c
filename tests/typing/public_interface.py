"""Checked by mypy in `make lint`, never run: the public interface as a user's own strict project sees it."""

from __future__ import annotations

from pathlib import Path

import outrider


def answer(target: Path, draft: Path) -> str:
    settings = outrider.Settings.of(model=str(target), draft_model=str(draft), max_tokens=16)
    with outrider.load(settings) as pair:
        result: outrider.GenerationResult = pair.generate("Say hello.", on_token=show)
        rate: float | None = result.metrics.acceptance_rate
        speed: float = result.timings.tokens_per_second  # type: ignore[assignment]
        return f"{result.text} {rate} {speed}"


def show(event: outrider.TokenEvent) -> None:
    source: str = event.token.source  # type: ignore[union-attr]
    print(event.text, source)


def conversation(pair: outrider.Pair) -> list[outrider.Message]:
    chat: outrider.ChatSession = pair.chat(system="Be brief.")
    chat.send(1)  # type: ignore[arg-type]
    return chat.messages


def fails() -> None:
    try:
        outrider.load(outrider.Settings.of(model="nothing"))
    except outrider.OutriderError as error:
        hint: str = error.hint
        print(hint)
