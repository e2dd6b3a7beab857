"""A link that carries each connection no faster than it is told, each request so much later; says what was asked for.

    python -m benchmarks.object_store.slow_links --to PORT [--rate MB/s] [--delay MS] [--log FILE]

Prints its own port. A thread each way for every connection: requests are held for the delay (and so is the first
moment of a connection, as a round trip would), answers go from socket to socket by ``splice`` without being copied and
are paced. ``FILE`` gets a JSON line for each request. On SIGUSR1 all connections crawl (50 kB/s) until SIGUSR2.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

_CHUNK = 1 << 18
_CRAWL = 50_000.0
_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")
_RANGE = re.compile(rb"\r\nrange: *bytes=(\d*)-(\d*)", re.IGNORECASE)


@dataclass(slots=True)
class Link:
    """What all connections share: ``rate`` in bytes a second for each (0: as fast as it goes), ``delay`` in seconds."""

    port: int
    rate: float
    delay_s: float
    log: TextIO | None
    crawling: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def carry(self, client: socket.socket) -> None:
        """Both ways of one connection, until either side closes it."""
        time.sleep(self.delay_s)
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                one.settimeout(None)
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            self._answers(server, client)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                time.sleep(self.delay_s)
                self._note(data)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        out, into = os.pipe()
        try:
            fcntl.fcntl(into, 1031, 1 << 20)  # F_SETPIPE_SZ
            due = time.monotonic()
            while count := os.splice(server.fileno(), into, _CHUNK):
                left = count
                while left:
                    left -= os.splice(out, client.fileno(), left)
                due = self._paced(max(due, time.monotonic() - 0.05), count)
        finally:
            os.close(out)
            os.close(into)
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _paced(self, due: float, count: int) -> float:
        rate = _CRAWL if self.crawling else self.rate
        if not rate:
            return due
        due += count / rate
        time.sleep(max(0.0, due - time.monotonic()))
        return due

    def _note(self, data: bytes) -> None:
        asked = _REQUEST.match(data)
        if self.log is None or asked is None:
            return
        part = _RANGE.search(data)
        first, last = (part[1].decode(), part[2].decode()) if part else ("", "")
        line = {"t": time.time(), "method": asked[1].decode(), "path": asked[2].decode(), "first": first, "last": last}
        with self.lock:
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Listen on a free port of the loopback until ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=int, required=True, help="the port of the server")
    parser.add_argument("--rate", type=float, default=0.0, help="MB/s for each connection (default: no limit)")
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds for each request")
    parser.add_argument("--log", default=None, help="file for a line each request")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(options.log, "a", encoding="utf-8")) if options.log else None  # noqa: PTH123
        link = Link(options.to, options.rate * 1e6, options.delay / 1000, log)
        signal.signal(signal.SIGUSR1, lambda *_: setattr(link, "crawling", True))
        signal.signal(signal.SIGUSR2, lambda *_: setattr(link, "crawling", False))
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=256))
        print(listening.getsockname()[1], flush=True)
        while True:
            client, _ = listening.accept()
            threading.Thread(target=link.carry, args=(client,), daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
