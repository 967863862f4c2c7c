"""A Hugging Face hub on the loopback interface, with faults on demand."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.models.local_server import QuietHandler, serving


@dataclass
class FakeHub:
    """What the hub holds and how it misbehaves.

    Attributes:
        files: "OWNER/REPO/REVISION/FILE" to content.
        address: of the running server.
        status: answer to every request for a file, if not 200.
        served: what is sent instead of a file's content; its length and sum stay those of the content.
        etag: what is said instead of the content's sum.
        cuts: so many downloads are cut in the middle.
        cdn_failures: so many downloads get a server error instead.
        allowance: so many bytes are sent in all, and then every download is cut at its first byte; None for no limit.
        hold: what a download waits for, up to 10 s, before it is cut because the allowance is used up.
        ranges: whether ranges are honoured.
        delay_s: before every answer.
        requests: "METHOD path range" of everything that was asked.
        tokens: authorisation headers that were sent, by path.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    address: str = ""
    status: int = 200
    served: bytes | None = None
    etag: str | None = None
    cuts: int = 0
    cdn_failures: int = 0
    allowance: int | None = None
    hold: threading.Event | None = None
    ranges: bool = True
    delay_s: float = 0.0
    requests: list[str] = field(default_factory=list)
    tokens: dict[str, str | None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, name: str, content: bytes) -> None:
        """Add a file, named OWNER/REPO/FILE, on the branch main."""
        owner, repository, file = name.split("/", 2)
        self.files[f"{owner}/{repository}/main/{file}"] = content

    def take(self, counter: str) -> bool:
        """Use up one of a kind of fault, if any is left."""
        with self.lock:
            left = getattr(self, counter)
            setattr(self, counter, max(left - 1, 0))
            return left > 0

    def granted(self, n_bytes: int) -> int:
        """How many of these bytes the allowance covers, which pays for them."""
        with self.lock:
            if self.allowance is None:
                return n_bytes
            granted = min(n_bytes, self.allowance)
            self.allowance -= granted
            return granted

    def downloads(self) -> list[str]:
        """Ranges that were asked from the server behind the hub, the probe's single byte left out."""
        found = [request.split()[2] for request in self.requests if request.startswith("GET /cdn/")]
        return [span for span in found if span != "bytes=0-0"]


class _Handler(QuietHandler):
    """Answers for one hub."""

    hub: FakeHub

    def do_HEAD(self) -> None:  # noqa: N802  # the name that the base class looks for
        self.do_GET()

    def do_GET(self) -> None:  # noqa: N802  # as above
        span = self.headers.get("Range", "-")
        with self.hub.lock:
            self.hub.requests.append(f"{self.command} {self.path} {span}")
            self.hub.tokens[self.path] = self.headers.get("Authorization")
        time.sleep(self.hub.delay_s)
        if self.path.startswith("/cdn/"):
            self.from_cdn(self.hub.files[self.path.removeprefix("/cdn/")], span)
        else:
            self.from_hub()

    def from_hub(self) -> None:
        match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
        name = f"{match[1]}/{match[2]}/{match[3]}" if match else ""
        if self.hub.status != 200:
            self.answer(self.hub.status)
        elif name not in self.hub.files:
            self.answer(404, {"X-Error-Code": "EntryNotFound"})
        else:
            content = self.hub.files[name]
            etag = self.hub.etag if self.hub.etag is not None else hashlib.sha256(content).hexdigest()
            headers = {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content)), "X-Repo-Commit": "c" * 40}
            elsewhere = self.hub.address.replace("127.0.0.1", "localhost")  # as on the real hub: files come from another host
            self.answer(302, headers | {"Location": f"{elsewhere}/cdn/{name}"})

    def from_cdn(self, content: bytes, span: str) -> None:
        content = content if self.hub.served is None else self.hub.served
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", span)
        if match is None or not self.hub.ranges:
            self.send_part(200, {}, content)
            return
        start, end = int(match[1]), min(int(match[2]) + 1, len(content))
        self.send_part(206, {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}, content[start:end])

    def send_part(self, status: int, headers: dict[str, str], body: bytes) -> None:
        is_probe = len(body) == 1
        if not is_probe and self.hub.take("cdn_failures"):
            self.answer(503)
        elif not is_probe and self.hub.take("cuts"):
            self.answer(status, headers, body[: len(body) // 2], claim=len(body))
        elif is_probe or (granted := self.hub.granted(len(body))) == len(body):
            self.answer(status, headers, body)
        else:
            self.answer(status, headers, body[:granted], claim=len(body))
            self.wfile.flush()
            if self.hub.hold is not None:
                self.hub.hold.wait(10)


@contextmanager
def running(hub: FakeHub) -> Iterator[FakeHub]:
    """The hub, reachable at its address."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with serving(handler) as address:
        hub.address = address
        yield hub
