"""An HTTP server of the standard library, with the limits that one needs whom anybody may reach."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from unhang.view.listening import ListenAddress

MAX_AT_ONCE = 32
"""Connections; one more is closed unanswered. A browser holds up to six."""
STEP_LIMIT_S = 5.0
WHOLE_LIMIT_S = 60.0


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
        limit = threading.Timer(WHOLE_LIMIT_S, _close, (request,))
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's business."""


def _close(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
