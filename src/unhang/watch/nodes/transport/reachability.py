"""Whether another machine answers at all (a connection, or a refusal), and at which of our addresses it sees us.

Nothing is sent.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

PORTS = (9, 22)
"""Usually closed or open; both are an answer."""
_UNREACHABLE_ERRORS = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ETIMEDOUT}


LIMIT_S = 1.0
AGAIN_S = 1.0
AT_ONCE = 4


def machine_answers(address: str, limit_s: float) -> bool | None:
    """None where that cannot be asked."""
    found = None
    for port in PORTS:
        answer = _port_answers(address, port, limit_s / len(PORTS))
        if answer:
            return True
        found = answer if answer is not None else found
    return found


def _port_answers(address: str, port: int, limit_s: float) -> bool | None:
    try:
        socket.create_connection((address, port), timeout=limit_s).close()
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    except OSError as error:
        return False if error.errno in _UNREACHABLE_ERRORS else None
    return True


class ReachabilityProbe:
    """Asks every machine once while all is well, and those that matter again and again: beside everything else."""

    def __init__(self) -> None:
        self.latest: dict[int, tuple[int, bool]] = {}
        """When each machine was asked (monotonic nanoseconds), and whether it answered."""
        self.ever_answered: set[int] = set()
        """Nodes whose machine answered at some time: that they do not now is a sign."""
        self._asked: dict[int, float] = {}
        self._running = 0

    def tick(self, addresses: Mapping[int, str], again: Collection[int]) -> None:
        """Ask who is due, without waiting for the answer."""
        now = time.monotonic()
        due = [n for n in again if now - self._asked.get(n, float("-inf")) >= AGAIN_S]
        due += [n for n in addresses if n not in self._asked]
        for node in due[: max(0, AT_ONCE - self._running)]:
            if node in addresses:
                self._asked[node] = now
                self._running += 1
                threading.Thread(target=self._ask, args=(node, addresses[node]), daemon=True).start()

    def _ask(self, node: int, address: str) -> None:
        asked_ns = time.monotonic_ns()
        try:
            answer = machine_answers(address, LIMIT_S)
            if answer is not None:
                self.latest[node] = (asked_ns, answer)
            if answer:
                self.ever_answered.add(node)
        finally:
            self._running -= 1


def own_address(address: str, port: int) -> str:
    """Empty where there is no way there, or no address."""
    with suppress(OSError):
        family, kind, *_, target = socket.getaddrinfo(address or "192.0.2.1", port or 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as asking:
            asking.connect(target)
            return str(asking.getsockname()[0])
    return ""
