"""The state of a run that ``unhang view --web`` serves on another machine, by its address with the token."""

from __future__ import annotations

import http.client
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

from unhang.errors import UnhangError, UsageError
from unhang.sentences import Text, say
from unhang.view.limited_server import hang_up
from unhang.view.reading import JUST_BEGUN, MAX_BYTES, NO_LAST_STATE, RunReading, SharedReading
from unhang.wire.documents.document import DECODE_ERRORS

LIMIT_S = 10.0
WHOLE_LIMIT_S = 30.0
"""However slowly it answers."""
NO_ANSWER = say("the server does not respond; this is its last answer")
_KNOWN = {str(text): text for text in (JUST_BEGUN, NO_LAST_STATE)}


def is_address(where: str) -> bool:
    """Whether it names a server, not a folder."""
    return where.lower().startswith(("http://", "https://"))


class RemoteRun:
    """Reads from one address. A server that goes away later leaves what it said last.

    Raises:
        UsageError: it is no address with a token.
    """

    def __init__(self, address: str) -> None:
        try:
            parts = urlsplit(address)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise UsageError(f"{address} is not an address ({error})") from error
        self._secure = parts.scheme == "https"
        self._path = parts.path.rpartition("/")[0] + "/live.json"
        self._token = parse_qs(parts.query).get("token", [""])[0]
        if not self._host or not self._token.isascii() or not self._token.isprintable() or not self._token:
            raise UsageError(
                "the address has no token", next_step="use the full address that unhang view --web printed"
            )
        self._last: RunReading | None = None

    def read(self, folder: Path) -> RunReading:
        """The state now; ``folder`` stands for the one the server tells.

        Raises:
            UnhangError: the server refuses, or never answered.
        """
        del folder
        try:
            self._last = self._reading(self._ask())
        except (OSError, http.client.HTTPException) as error:
            if self._last is None:
                raise UnhangError(f"{self._host} does not respond ({error})") from error
            return RunReading(self._last.folder, False, self._last.state, NO_ANSWER)
        return self._last

    def _ask(self) -> bytes:
        """No proxy, no redirection: the token goes to this host only."""
        if self._secure:
            context = ssl.create_default_context()
            link: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=LIMIT_S, context=context
            )
        else:
            link = http.client.HTTPConnection(self._host, self._port, timeout=LIMIT_S)
        limit: threading.Timer | None = None
        try:
            link.connect()
            limit = threading.Timer(WHOLE_LIMIT_S, hang_up, (link.sock,))
            limit.daemon = True
            limit.start()
            link.request("GET", self._path, headers={"Authorization": f"Bearer {self._token}"})
            answer = link.getresponse()
            if answer.status == 403:
                raise UnhangError("the server refuses: wrong token, or a name it does not go by")
            if answer.status != 200:
                raise UnhangError(f"the server answered {answer.status}: it is not unhang view --web")
            return answer.read(MAX_BYTES + 1)
        finally:
            if limit is not None:
                limit.cancel()
            with suppress(OSError):
                link.close()

    def _reading(self, body: bytes) -> RunReading:
        try:
            told = msgspec.json.decode(body, type=SharedReading)
        except DECODE_ERRORS as error:
            raise UnhangError("the server's answer is not the state of a run, or is from another version") from error
        if told.state is not None and not told.state.is_consistent():
            raise UnhangError("the server's answer is not the state of a run, or is from another version")
        return RunReading(Path(told.folder), told.live, told.state, _reason(told.because), tuple(told.ended))


def _reason(because: str) -> Text | None:
    """What the server says in English; one of another version may say something else."""
    return _KNOWN.get(because, Text("{reason}", {"reason": because})) if because else None
