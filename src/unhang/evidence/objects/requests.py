"""Asking a store: every wait has a limit, and a server that is gone is not waited for object by object."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from unhang.errors import ObjectError, UnhangError

Answer = TypeVar("Answer")
LIMIT_S = 180.0
"""For one request, of some MiB at most, with all its retries; the packages' own limits are shorter."""
MOST_SILENT = 3
WAITS_S = (0.5, 2.0)
"""Before it is asked again, where the package does not do that itself."""
GONE = "is gone: it was there when its folder was listed"
FORBIDDEN = "may not be read with these credentials (access denied)"
NO_CREDENTIALS = "needs credentials, and none were found"
REPLACED = "was replaced after it was listed"
NOT_ASKED = "was not asked for: the server had not answered several times in a row"
_SILENT = ("Connect", "Timeout", "Disconnected", "SSLError", "SSHException", "IncompleteRead", "PayloadError")


class Request(threading.Thread, Generic[Answer]):
    """``work`` in a thread of its own, which ends with the process: a server may leave it waiting for ever."""

    def __init__(self, work: Callable[[], Answer], limit_s: float) -> None:
        super().__init__(name="unhang-object", daemon=True)
        self._work = work
        self._answer: list[Answer] = []
        self._error: Exception | None = None
        self._deadline = time.monotonic() + limit_s
        self._limit_s = limit_s
        self.start()

    def run(self) -> None:
        """Ask, and keep what came."""
        try:
            self._answer.append(self._work())
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer is told
            self._error = error

    def answer(self) -> Answer:
        """What was answered. Raises what the work raised; ObjectError when nothing came within the limit."""
        self.join(max(0.0, self._deadline - time.monotonic()))
        if self._error is not None:
            raise self._error
        if not self._answer:
            raise ServerSilentError(f"the server did not answer within {self._limit_s:.0f} s")
        return self._answer[0]


class ServerSilentError(ObjectError):
    """Nothing came in time."""


class Server:
    """One store as it behaves. After some requests in a row that were not answered it is asked no more."""

    def __init__(self, *, retries_by_itself: bool) -> None:
        self._waits_s = () if retries_by_itself else WAITS_S
        self._silent = 0

    def begin(self, work: Callable[[], Answer]) -> Request[Answer]:
        """Ask; somebody fetches the answer later."""
        return Request(lambda: self._asked(work), LIMIT_S)

    def answer(self, request: Request[Answer]) -> Answer:
        """The answer. Raises ObjectError with the reason, in plain words, why there is none."""
        try:
            answer = request.answer()
        except Exception as error:
            if is_silence(error):
                self._silent += 1
            if isinstance(error, UnhangError):
                raise
            raise ObjectError(reason_of(error)) from error
        self._silent = 0
        return answer

    def _asked(self, work: Callable[[], Answer]) -> Answer:
        for wait_s in self._waits_s:
            self._refuse_the_gone()
            try:
                return work()
            except Exception as error:
                if not is_silence(error):
                    raise
            time.sleep(wait_s)
        self._refuse_the_gone()
        return work()

    def _refuse_the_gone(self) -> None:
        if self._silent >= MOST_SILENT:
            raise ObjectError(NOT_ASKED)


def is_silence(error: Exception) -> bool:
    """Whether it says that the server is not there, or not able to answer, rather than what it answered."""
    if isinstance(error, ServerSilentError | TimeoutError | ConnectionError | EOFError):
        return True
    status = _status(error)
    if status is not None:
        return status >= 500
    return any(word in type(error).__name__ for word in _SILENT)


def is_absence(error: Exception) -> bool:
    """Whether there is no such object. For the web fsspec says so, too, when the server refused or is not there."""
    cause = error.__cause__
    told = isinstance(cause, Exception) and is_silence(cause)
    return isinstance(error, FileNotFoundError) and _status(error) in (None, 404) and not told


def reason_of(error: Exception) -> str:
    """One plain clause for what a store raised. Its own words are left out: they may hold addresses and keys."""
    if isinstance(error, ObjectError):
        return str(error)
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception) and not is_absence(error):
        return reason_of(error.__cause__)
    name, status = type(error).__name__, _status(error)
    if isinstance(error, PermissionError) or status in (401, 403):
        return FORBIDDEN
    if is_absence(error) or status == 404:
        return GONE
    if name == "FileExpired" or status in (412, 416):
        return REPLACED
    if "Credential" in name or "Authentication" in name:
        return NO_CREDENTIALS
    if status is not None and status >= 500:
        return f"could not be read: the server answered {status}"
    return f"could not be read: the server did not answer ({name})" if is_silence(error) else f"cannot be read ({name})"


def _status(error: BaseException) -> int | None:
    """The status of HTTP that it stands for, if it says so: aiohttp's, botocore's, requests'."""
    for one in (error, error.__cause__):
        response: Any = getattr(one, "response", None)
        told = getattr(one, "status", None) or getattr(response, "status_code", None)
        if isinstance(response, dict):
            told = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if isinstance(told, int):
            return told
    return None
