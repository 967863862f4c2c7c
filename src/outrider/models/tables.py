"""Listings and inspections as a person reads them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from outrider.gguf import HyperParameters, Vocabulary
from outrider.models.inspection import Inspection, TypeShare
from outrider.models.listing import Listed, State
from outrider.models.store import size_text
from outrider.text.visible import visible

_PIPED_WIDTH: Final = 240  # a pipe has no edge: nothing may be wrapped or cut there
_TEMPLATE_LINES: Final = 8
_STATE_STYLES: Final = {State.PULLED: "green", State.PARTIAL: "yellow", State.DAMAGED: "red", State.ABSENT: "dim"}


def show(view: RenderableType, stream: TextIO) -> None:
    """Print for a terminal, wrapped to its width; or anywhere else as plain lines that nothing has cut."""
    if stream.isatty():
        Console(file=stream, highlight=False).print(view)
        return
    plain = io.StringIO()
    Console(file=plain, highlight=False, width=_PIPED_WIDTH, color_system=None).print(view)
    stream.writelines(f"{line.rstrip()}\n" for line in plain.getvalue().splitlines())


def listing_view(listed: Iterable[Listed], directory: Path) -> RenderableType:
    """One line per model, and where they are kept."""
    table = _table("NAME", ">SIZE", "LICENCE", "STATE", "FOR", "DESCRIPTION")
    for item in listed:
        model = item.model
        state = f"{100 * item.arrived_bytes // item.n_bytes} % pulled" if item.state is State.PARTIAL else item.state.value
        table.add_row(
            Text(visible(item.name), style="bold"),
            size_text(item.n_bytes),
            model.licence if model else "see the hub",
            Text(state, style=_STATE_STYLES[item.state]),
            model.role.value if model else "",
            Text(model.description if model else "", overflow="fold"),
        )
    return Group(table, Text(f"kept in {visible(str(directory))}", style="dim"))


def sources_view(listed: Iterable[Listed]) -> RenderableType:
    """Checksum and sources of each model of the catalogue."""
    parts: list[RenderableType] = []
    for model in [item.model for item in listed if item.model is not None]:
        first, last = model.parts[0], model.parts[-1]
        packages = first.package if len(model.parts) == 1 else f"{first.package} to {last.package}"
        rows = [
            ("title", model.title),
            ("bytes", f"{model.n_bytes:,}"),
            ("sha256", model.sha256),
            ("first source", str(model.hub)),
            ("second source", f"{packages}, version {first.version}, from the package registry"),
        ]
        parts += _section(model.name, _pairs(rows))
    return Group(*parts)


def inspection_view(found: Inspection) -> RenderableType:
    """Everything but the whole template."""
    parts: list[RenderableType] = [_pairs(_file_rows(found))]
    if found.parameters is not None:
        parts += _section("Hyper-parameters", _pairs(_parameter_rows(found.parameters)))
    if found.types:
        parts += _section("Tensors", _types_table(found))
    if found.vocabulary is not None:
        parts += _section("Tokenizer", _pairs(_vocabulary_rows(found, found.vocabulary)))
    else:
        parts += _section("Tokenizer", Text("none in this file"))
    parts += _section("Chat template", _template(found.chat_template))
    return Group(*parts)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading.lstrip(">"), justify="right" if heading.startswith(">") else "left", no_wrap=heading != "DESCRIPTION")
    return table


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(""), Text(title, style="bold"), Padding(body, (0, 0, 0, 2))]


def _pairs(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(visible(value)))
    return table


def _file_rows(found: Inspection) -> list[tuple[str, str]]:
    first = str(found.files[0])
    name = found.parameters.name if found.parameters is not None else ""
    return [
        ("file", first if len(found.files) == 1 else f"{first} and {len(found.files) - 1} more parts"),
        *([("name", name)] if name else []),
        ("size", f"{size_text(found.file_bytes)} ({found.file_bytes:,} bytes)"),
        ("format", f"GGUF version {found.version}, alignment {found.alignment}, {found.n_keys} metadata keys"),
    ]


def _parameter_rows(parameters: HyperParameters) -> list[tuple[str, str]]:
    rope = parameters.rope
    experts = f"{parameters.n_experts_used} of {parameters.n_experts} used" if parameters.n_experts else ""
    scaling = "" if rope.scaling == "none" else f", {rope.scaling} scaling by {rope.factor:g} from {rope.n_context_original:,} tokens"
    rows = [
        ("architecture", parameters.architecture),
        ("parameters", f"{parameters.n_parameters:,}"),
        ("layers", _count(parameters.n_layers)),
        ("embedding", _count(parameters.n_embedding)),
        ("feed-forward", _count(parameters.n_ff)),
        ("heads", f"{parameters.n_heads}, {parameters.n_kv_heads} for keys and values, of size {parameters.head_size}"),
        ("experts", experts),
        ("context trained", f"{parameters.n_context_train:,} tokens" if parameters.n_context_train else ""),
        ("vocabulary", _count(parameters.n_vocab)),
        ("rope", f"base {rope.base:,.0f}, {rope.n_dims} dimensions{scaling}"),
        ("rms epsilon", f"{parameters.rms_epsilon:.3g}" if parameters.rms_epsilon else ""),
    ]
    return [(name, value) for name, value in rows if value]


def _count(n: int) -> str:
    return f"{n:,}" if n else ""


def _types_table(found: Inspection) -> Table:
    table = _table("TYPE", ">TENSORS", ">BYTES", ">SHARE", "")
    for share in found.types:
        table.add_row(*_type_row(share))
    total = TypeShare("all", sum(share.n_tensors for share in found.types), found.tensor_bytes, 1.0)
    bits = f"{found.bits_per_weight:.2f} bits per weight" if found.bits_per_weight else ""
    table.add_row(*_type_row(total), bits, style="bold")
    return table


def _type_row(share: TypeShare) -> Seq[str]:
    return (share.type, str(share.n_tensors), f"{share.n_bytes:,}", f"{100 * share.share:.1f} %")


def _vocabulary_rows(found: Inspection, vocabulary: Vocabulary) -> list[tuple[str, str]]:
    families = {"gpt2": "byte pairs", "llama": "SentencePiece"}
    family = families.get(vocabulary.model)
    adds = [name for name, is_on in (("bos", vocabulary.add_bos), ("eos", vocabulary.add_eos)) if is_on]
    ends = ", ".join(_token(vocabulary, token) for token in sorted(vocabulary.end_tokens))
    return [
        ("family", f"{vocabulary.model} ({family})" if family else vocabulary.model),
        ("pre-tokenizer", vocabulary.pre or "not stated"),
        ("entries", f"{len(vocabulary):,}, and {len(vocabulary.merges):,} merges"),
        ("adds to a text", " and ".join(adds) or "nothing"),
        *((name, _token(vocabulary, token)) for name, token in found.special_tokens.items()),
        ("ends generation", ends or "nothing"),
    ]


def _token(vocabulary: Vocabulary, token: int) -> str:
    return f"{token} {vocabulary.tokens[token]!r}"


def _template(template: str | None) -> RenderableType:
    if template is None:
        return Text("none in this file")
    lines = visible(template).splitlines() or [""]
    more = len(lines) - _TEMPLATE_LINES
    shown = Text("\n".join(lines[:_TEMPLATE_LINES]), overflow="fold")
    return Group(shown, Text(f"... {more} more lines: --template prints all", style="dim")) if more > 0 else shown
