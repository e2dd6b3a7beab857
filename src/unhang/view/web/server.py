"""Serve a run to a browser and to other people's ``unhang view``: it only reads, and answers only who has the token."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from unhang.errors import UnhangError
from unhang.view.limited_server import STEP_LIMIT_S, LimitedServer
from unhang.view.listening import ListenAddress
from unhang.view.web.responses import Response, RunResponses, refusal

COMMON_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Connection": "close",
}


class _RequestHandler(BaseHTTPRequestHandler):
    timeout = STEP_LIMIT_S
    server: WebServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "unhang", ""

    def do_GET(self) -> None:
        """Answer a request."""
        self._send(self._answer())

    def _answer(self) -> Response:
        listening = self.server.listening
        if not listening.is_named(self.headers.get("Host", "")):
            return refusal(403, "this server is not known by that name")
        try:
            address = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(address.query, max_num_fields=16).items()}
        except ValueError:
            return refusal(400, "not an address")
        if not listening.is_authorized(self.headers.get("Authorization", ""), asked.get("token", "")):
            return refusal(403, "the token is missing or wrong: take the whole address unhang view printed")
        try:
            return self.server.answers.answer(address.path, asked)
        except UnhangError as error:
            return refusal(503, str(error))

    def _send(self, answer: Response) -> None:
        if answer.code == 200 and self.headers.get("If-None-Match") == answer.tag:
            self._head(304, answer, b"")
            return
        packed = bool(answer.packed) and "gzip" in self.headers.get("Accept-Encoding", "")
        body = answer.packed if packed else answer.body
        self._head(answer.code, answer, body, packed=packed)
        self.wfile.write(body)

    def _head(self, code: int, answer: Response, body: bytes, *, packed: bool = False) -> None:
        self.send_response(code)
        headers = {
            **COMMON_HEADERS,
            "Content-Type": answer.kind,
            "Content-Security-Policy": answer.policy,
            "ETag": answer.tag,
        }
        if packed:
            headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the library's name for it
        """Nothing: an address holds the token."""


class WebServer(LimitedServer):
    """Listens where it may.

    Raises:
        UnhangError: it cannot listen there.
    """

    def __init__(self, listening: ListenAddress, answers: RunResponses) -> None:
        self.answers = answers
        try:
            super().__init__(listening, _RequestHandler)
        except OSError as error:
            where = f"{listening.host}:{listening.port}"
            raise UnhangError(f"cannot listen at {where} ({error.strerror or error})") from error

    @property
    def address(self) -> str:
        """Where the page is, with the token."""
        return f"{self.root}/?token={self.listening.token}"
