"""Where a server of ours may listen, and whom it answers: loopback unless the user names an address, with a token."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unhang.errors import UsageError
from unhang.watch import private_files

TOKEN_VARIABLE = "UNHANG_TOKEN"  # noqa: S105 - its name, not its value
SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on. ``token``: empty on loopback where the user wants none."""

    host: str
    port: int
    token: str

    def is_authorized(self, authorization: str, asked: str = "") -> bool:
        """Whether a request with this ``Authorization`` header, or this token in its address, may be answered."""
        if not self.token:
            return True
        given = authorization.removeprefix("Bearer ").strip() if authorization.startswith("Bearer ") else asked
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def is_named(self, host_header: str) -> bool:
        """Whether a ``Host`` header names this server, and not somebody's name that was made to lead here.

        An address is no name; a port may differ, as behind ``ssh -L``.
        """
        name = host_header[1:].partition("]")[0] if host_header.startswith("[") else host_header.partition(":")[0]
        if is_loopback(name) and name:
            return True
        if is_loopback(self.host):
            return False
        return _is_address(name) or name.lower() == self.host.lower() or name.lower().partition(".")[0] == _own_name()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host in ("localhost", ""):
        return True
    return _is_address(host.strip("[]")) and ipaddress.ip_address(host.strip("[]")).is_loopback


def listening_on(
    where: str, folder: Path, environment: Mapping[str, str] = os.environ, *, with_token: bool = True
) -> ListenAddress:
    """``PORT``, ``HOST:PORT`` or ``[IPv6]:PORT``. The token is ``UNHANG_TOKEN``, or a new one that is written to
    ``.unhang/token`` in the run folder; none where the user wants none, on loopback.

    Raises:
        UsageError: it is none of these, or the token is too short or missing.
    """
    host, port = _address(where)
    check_address(where, environment, with_token=with_token)
    if not with_token:
        return ListenAddress(host, port, "")
    token = _given_token(environment)
    if not token:
        token = secrets.token_urlsafe(24)
        private_files.write(folder / ".unhang" / "token", token.encode() + b"\n")
    return ListenAddress(host, port, token)


def listening_with_token(where: str, environment: Mapping[str, str] = os.environ) -> ListenAddress:
    """The same for a server that always wants a token: ``UNHANG_TOKEN``, or a new one that is written nowhere.

    Raises:
        UsageError: ``where`` is no address, or the token is too short.
    """
    return ListenAddress(*_address(where), _given_token(environment) or secrets.token_urlsafe(24))


def check_address(where: str, environment: Mapping[str, str] = os.environ, *, with_token: bool = True) -> None:
    """Before anything is started. Raises as :func:`listening_on` does."""
    host, _ = _address(where)
    _given_token(environment)
    if not with_token and not is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines: metrics are served there with a token only",
            next_step="leave --metrics-open out, or serve at a port of this machine",
        )


def _address(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{where} is neither a port nor HOST:PORT", next_step="for example 9400, or 0.0.0.0:9400")
    return (host or "127.0.0.1").strip("[]"), int(port)


def _given_token(environment: Mapping[str, str]) -> str:
    token = environment.get(TOKEN_VARIABLE, "")
    if token and len(token) < SHORTEST_TOKEN:
        raise UsageError(f"{TOKEN_VARIABLE} is shorter than {SHORTEST_TOKEN} characters")
    return token


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _own_name() -> str:
    return socket.gethostname().lower().partition(".")[0]
