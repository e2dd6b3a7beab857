"""Serve a run to a browser and to other people's ``unhang view``: it only reads, and answers only who has the token."""

from __future__ import annotations

import html
import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from unhang.errors import UnhangError
from unhang.view.limited_server import LimitedHandler, LimitedServer
from unhang.view.listening import ListenAddress, is_loopback
from unhang.view.web.responses import Response, RunResponses, refusal

COMMON_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class _RequestHandler(LimitedHandler):
    server: WebServer

    def do_GET(self) -> None:  # noqa: N802 - the library's name for it
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
        headers = {
            **COMMON_HEADERS,
            "Content-Type": answer.kind,
            "Content-Security-Policy": answer.policy,
            "ETag": answer.tag,
        }
        if answer.code == 200 and self.headers.get("If-None-Match") == answer.tag:
            self.answer(304, headers, b"")
        elif answer.packed and "gzip" in self.headers.get("Accept-Encoding", ""):
            self.answer(answer.code, {**headers, "Content-Encoding": "gzip"}, answer.packed)
        else:
            self.answer(answer.code, headers, answer.body)


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


def serve_until_interrupted(server: WebServer, tell: Callable[[str], None], *, open_browser: bool) -> None:
    """Until Ctrl-C. ``tell`` is given the address once it is listened at."""
    threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.2}).start()
    door: Path | None = None
    try:
        tell(server.address)
        door = _open(server) if open_browser and has_screen() else None
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.shutdown()
        server.server_close()
        if door is not None:
            with suppress(OSError):
                door.unlink()


def has_screen(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a browser of this machine would be seen by whoever asks."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in environment
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def _open(server: WebServer) -> Path | None:
    """Through a private file that leads on: a command line can be read by everybody on the machine, and the address
    holds the token."""
    address = server.address
    if not is_loopback(server.listening.host):
        address = address.replace(f"//{server.listening.host}", "//127.0.0.1", 1)
    handle, name = tempfile.mkstemp(prefix="unhang-", suffix=".html")  # mkstemp makes it 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address, quote=True)}">\n')
    door = Path(name)
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(door.as_uri())
    return door
