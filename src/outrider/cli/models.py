"""`outrider models`: list, pull, path and inspect."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from outrider.cli.output import print_json, write, writing
from outrider.errors import EXIT_CODES, CancelledError
from outrider.text.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from outrider.models.pull import Pulled


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the `models` command; parsing sets `func` to what runs the chosen subcommand and returns an exit code."""
    models = subparsers.add_parser("models", help="list, fetch and look into models", description="List, fetch and look into models.")
    commands = models.add_subparsers(metavar="COMMAND", required=True)
    listing = _add(commands, _list, "list", "show the catalogue and what of it is here")
    listing.add_argument("--sources", action="store_true", help="also show checksums and where each model comes from")
    pull = _add(commands, _pull, "pull", "fetch models, or check those that are here")
    pull.add_argument("names", nargs="+", metavar="NAME", help="a catalogue name, or hf:OWNER/REPO/FILE")
    path = _add(commands, _path, "path", "print where a model's file is")
    path.add_argument("name", metavar="NAME", help="a catalogue name, hf:OWNER/REPO/FILE, or a file")
    inspect = _add(commands, _inspect, "inspect", "show what is in a GGUF file")
    inspect.add_argument("name", metavar="FILE", help="a file, or the name of a model that was pulled")
    inspect.add_argument("--template", action="store_true", help="print the whole chat template and nothing else")


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    run: Callable[[argparse.Namespace], int],
    name: str,
    purpose: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.set_defaults(func=run)
    return parser


def _list(args: argparse.Namespace) -> int:
    from outrider.models.listing import listing
    from outrider.models.store import models_directory

    directory = models_directory()
    listed = listing(directory)
    if args.json:
        return _print_json({"directory": str(directory), "models": [item.document() for item in listed]})
    from outrider.models.tables import listing_view, show, sources_view

    with writing(sys.stdout):
        show(listing_view(listed, directory), sys.stdout)
        if args.sources:
            show(sources_view(listed), sys.stdout)
    return 0


def _pull(args: argparse.Namespace) -> int:
    from outrider.models.progress import progress_on
    from outrider.models.targets import pull_model

    pulled: list[Pulled] = []
    try:
        for name in args.names:
            progress = progress_on(sys.stderr, name)
            for file in pull_model(name, progress):
                progress.note(_outcome(file))
                pulled.append(file)
    except KeyboardInterrupt:
        return EXIT_CODES[CancelledError]
    if args.json:
        return _print_json({"models": [_pulled_document(file) for file in pulled]})
    for file in pulled:
        _say(file.path)
    return 0


def _outcome(file: Pulled) -> str:
    if file.source is None:
        return "already here, and its checksum is right" if file.checked else "already here"
    return f"ready after {file.seconds:.1f} s" + (", checksum right" if file.checked else "")


def _pulled_document(file: Pulled) -> dict[str, Any]:
    return {
        "name": file.name,
        "path": str(file.path),
        "bytes": file.n_bytes,
        "sha256": file.sha256 or None,
        "checked": file.checked,
        "source": file.source,
        "seconds": round(file.seconds, 3),
    }


def _path(args: argparse.Namespace) -> int:
    from outrider.models.resolve import resolve

    path = resolve(args.name)
    if args.json:
        return _print_json({"name": args.name, "path": str(path)})
    _say(path)
    return 0


def _inspect(args: argparse.Namespace) -> int:
    from outrider.errors import ModelFileError
    from outrider.models.inspection import inspect
    from outrider.models.resolve import resolve

    path = resolve(args.name)
    found = inspect(path)
    if args.template and found.chat_template is None:
        raise ModelFileError("the file has no chat template", "run it with --raw", path=str(path))
    if args.json:
        return _print_json({"chat_template": found.chat_template} if args.template else found.document())
    from outrider.models.tables import inspection_view, show

    if args.template:
        _say(found.chat_template or "")
    else:
        with writing(sys.stdout):
            show(inspection_view(found), sys.stdout)
    return 0


def _say(line: object) -> None:
    """Exactly this for another program, harmless for a terminal."""
    write(sys.stdout, f"{visible(str(line)) if sys.stdout.isatty() else line}\n")


def _print_json(document: dict[str, Any]) -> int:
    print_json(document)
    return 0
