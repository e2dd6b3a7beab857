"""An HTTP server of the standard library, with the limits that one needs whom anybody may reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from unhang.view.listening import ListenAddress

MAX_AT_ONCE = 32
"""Connections; one more is closed unanswered. A browser holds up to six."""
STEP_LIMIT_S = 5.0
WHOLE_LIMIT_S = 60.0


class LimitedHandler(BaseHTTPRequestHandler):
    """Answers once, and tells nobody who asked."""

    timeout = STEP_LIMIT_S
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "unhang", ""

    def answer(self, code: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send one whole answer."""
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body)), "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the library's name for it
        """Nothing: an address may hold a token."""


class LimitedServer(ThreadingHTTPServer):
    """Listens where it may. Raises OSError where it cannot."""

    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, listening: ListenAddress, request: type[BaseHTTPRequestHandler]) -> None:
        self.listening = listening
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)
        if ":" in listening.host:
            self.address_family = socket.AF_INET6
        super().__init__((listening.host, listening.port), request)

    @property
    def root(self) -> str:
        """``http://HOST:PORT``, as it is listened at."""
        host = f"[{self.listening.host}]" if ":" in self.listening.host else self.listening.host
        return f"http://{host}:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Only while there is a place."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """However slowly somebody reads: it is over after :data:`WHOLE_LIMIT_S`."""
        limit = threading.Timer(WHOLE_LIMIT_S, hang_up, (request,))
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's business."""


def hang_up(line: socket.socket) -> None:
    """End what is said on a line, whoever speaks or waits there."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
