"""Serve a run to a browser and to other people's ``unhang view``: it only reads, and answers only who has the token."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from unhang.errors import UnhangError
from unhang.viewing.listening import Listening
from unhang.viewing.web.answers import Answer, Answers, refusal

MOST_AT_ONCE = 32
"""Connections; one more is closed unanswered. A browser holds up to six."""
STEP_LIMIT_S = 5.0
WHOLE_LIMIT_S = 60.0
ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Connection": "close",
}


class _Request(BaseHTTPRequestHandler):
    timeout = STEP_LIMIT_S
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "unhang", ""

    def do_GET(self) -> None:
        """One question."""
        self._send(self._answer())

    def _answer(self) -> Answer:
        listening = self.server.listening
        if not listening.is_named(self.headers.get("Host", "")):
            return refusal(403, "this server is not known by that name")
        try:
            address = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(address.query, max_num_fields=16).items()}
        except ValueError:
            return refusal(400, "not an address")
        if not listening.admits(self.headers.get("Authorization", ""), asked.get("token", "")):
            return refusal(403, "the token is missing or wrong: take the whole address unhang view printed")
        try:
            return self.server.answers.answer(address.path, asked)
        except UnhangError as error:
            return refusal(503, str(error))

    def _send(self, answer: Answer) -> None:
        if answer.code == 200 and self.headers.get("If-None-Match") == answer.tag:
            self._head(304, answer, b"")
            return
        packed = bool(answer.packed) and "gzip" in self.headers.get("Accept-Encoding", "")
        body = answer.packed if packed else answer.body
        self._head(answer.code, answer, body, packed=packed)
        self.wfile.write(body)

    def _head(self, code: int, answer: Answer, body: bytes, *, packed: bool = False) -> None:
        self.send_response(code)
        headers = {**ALWAYS, "Content-Type": answer.kind, "Content-Security-Policy": answer.policy, "ETag": answer.tag}
        if packed:
            headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the library's name for it
        """Nothing: an address holds the token."""


class Server(ThreadingHTTPServer):
    """Listens where it may.

    Raises:
        UnhangError: it cannot listen there.
    """

    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, listening: Listening, answers: Answers) -> None:
        self.listening, self.answers = listening, answers
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        if ":" in listening.host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((listening.host, listening.port), _Request)
        except OSError as error:
            where = f"{listening.host}:{listening.port}"
            raise UnhangError(f"cannot listen at {where} ({error.strerror or error})") from error

    @property
    def address(self) -> str:
        """Where the page is, with the token."""
        host = f"[{self.listening.host}]" if ":" in self.listening.host else self.listening.host
        return f"http://{host}:{self.server_address[1]}/?token={self.listening.token}"

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
