"""HTTP servers on the loopback interface that stop when their test does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Speaks HTTP/1.1 and keeps its log to itself."""

    protocol_version = "HTTP/1.1"
    timeout = 10

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that the base class uses
        pass

    def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"", *, claim: int | None = None) -> None:
        """Send a response; `claim` states another length than the body has, after which the connection is cut."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if claim is None else claim))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if claim is not None:
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of the plan."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The server's address, such as http://127.0.0.1:1234, while it runs."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
