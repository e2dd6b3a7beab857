"""Those who meet in a store, for ``messaging``: a leader, nodes by the hundred, and peers that behave badly.

    python -m benchmarks.store_peers lead STORE PORT NODES
    python -m benchmarks.store_peers speak STORE PORT FIRST LAST
    python -m benchmarks.store_peers swallow|flood STORE PORT

Each prints ``ready`` once it is. A line on the standard input of ``lead`` begins a window of so many seconds, one on
that of ``speak`` asks how its nodes went since the last one; the answer is a line of JSON.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks.nats_store import NatsStore
from benchmarks.other_stores import STORES, ConnectionStore, Store, ZmqStore
from unhang.watch.nodes.transport.key_value_exchange import MAX_BYTES, ExchangeError
from unhang.watch.nodes.transport.store_exchange import StoreExchange
from unhang.watch.nodes.transport.store_server import StoreRequest

HERE, TOKEN = "127.0.0.1", "a-token-long-enough"
PACE_S = 0.5
"""Of the leader's rounds, and of what each node says and hears."""
DIGEST = b"x" * 200
LARGE = 16
"""Values of 1 MiB, for peers that take much."""
FLOOD_S = 5.0


def opened(store: str, port: int, *, keep: bool = False, limit_s: float = 60.0) -> Store:
    """Tried again until it is there. Raises ExchangeError."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            place = STORES[store](HERE, port, keep=keep, token=TOKEN)
            place.get(["h/0"])
            return place
        except ExchangeError:  # noqa: PERF203 - it is waited for
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def lead(store: str, port: int, nodes: int) -> None:
    """Keep the store, and in each round give an order and read what every node says."""
    place = opened(store, port, keep=True)
    _say("ready")
    keys = [f"d/{node}" for node in range(nodes)]
    number = 0
    for line in sys.stdin:
        took: list[float] = []
        began_s, cpu_s, heard, lost = time.monotonic(), _cpu_s(place), 0, 0
        while time.monotonic() - began_s < float(line):
            number += 1
            at_s = time.monotonic()
            try:
                place.put("w/0", b"%d" % number)
                heard = len(place.get(keys))
                took.append(time.monotonic() - at_s)
            except ExchangeError:
                lost += 1
                place = opened(store, port)
            time.sleep(max(0.0, at_s + PACE_S - time.monotonic()))
        told = {"took": took, "cpu_s": _cpu_s(place) - cpu_s, "heard": heard, "lost": lost}
        _say(json.dumps({**told, "mib": _mib(place, "VmHWM"), "now_mib": _mib(place, "VmRSS")}))


def speak(store: str, port: int, first: int, last: int) -> None:
    """Nodes, each with a connection of its own: say a digest, hear the order."""
    began_s = time.monotonic()
    places = {node: opened(store, port) for node in range(first, last)}
    for node, place in places.items():
        place.put(f"d/{node}", DIGEST)
    _say("ready")
    connect_s, now_s = time.monotonic() - began_s, time.monotonic()
    due = [(now_s + at * PACE_S / len(places), node) for at, node in enumerate(places)]
    took: list[float] = []
    late_s, failed = 0.0, 0
    while True:
        at_s, node = heapq.heappop(due)
        time.sleep(max(0.0, at_s - time.monotonic()))
        begun_s = time.monotonic()
        late_s = max(late_s, begun_s - at_s)
        try:
            places[node].put(f"d/{node}", DIGEST + b"%d" % int(begun_s))
            places[node].get(["w/0"])
            took.append(time.monotonic() - begun_s)
        except ExchangeError:
            failed += 1
            places[node] = opened(store, port)
        heapq.heappush(due, (max(at_s + PACE_S, begun_s), node))
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            _say(json.dumps({"took": took, "late_s": late_s, "failed": failed, "connect_s": connect_s}))
            took, late_s, failed = [], 0.0, 0


def swallow(store: str, port: int) -> None:
    """Read much, again and again; the driver stops this process in the middle of it."""
    place = opened(store, port)
    for part in range(LARGE):
        place.put(f"e/{part}", bytes(MAX_BYTES))
    _say("ready")
    while True:
        place.get([f"e/{part}" for part in range(LARGE)])


def flood(store: str, port: int) -> None:
    """Ask for 1 MiB as often as the store lets us, and never read an answer."""
    place = opened(store, port)
    place.put("e/0", bytes(MAX_BYTES))
    send = _asking_without_reading(place, port)
    _say("ready")
    asked, end_s = 0, time.monotonic() + FLOOD_S
    while time.monotonic() < end_s:
        try:
            send()
            asked += 1
        except OSError:  # noqa: PERF203 - it takes no more
            time.sleep(0.05)
    _say(json.dumps({"asked": asked}))
    time.sleep(600)


def _asking_without_reading(place: Store, port: int) -> Callable[[], None]:
    body = msgspec.msgpack.encode(StoreRequest("g", ["e/0"]))
    if isinstance(place, ZmqStore):
        return place.asking_on(f"tcp://{HERE}:{port}", body)
    if isinstance(place, StoreExchange) and place._line is not None:  # noqa: SLF001 - it has no other way
        number, asked = place._line.fileno(), len(body).to_bytes(4, "big") + body  # noqa: SLF001
    elif isinstance(place, ConnectionStore):
        number, asked = place.line.fileno(), len(body).to_bytes(4, "big") + body
    else:
        stranger, asked = _stranger_of_torch(port)
        number = stranger.detach()
    os.set_blocking(number, False)
    return lambda: _whole(os.write(number, asked), asked)


def _stranger_of_torch(port: int) -> tuple[socket.socket, bytes]:
    """A connection that asks as torch's own client does, and the request."""
    key = b"/e/0"
    asked = b"\x03" + len(key).to_bytes(8, "little") + key  # GET
    stranger = socket.create_connection((HERE, port))
    stranger.sendall(b"\x00" + (0x3C85F7CE).to_bytes(4, "little") + asked)
    if stranger.recv(8) != MAX_BYTES.to_bytes(8, "little"):
        raise ChildProcessError("the protocol of TCPStore is another one by now")
    return stranger, asked


def _whole(sent: int, framed: bytes) -> None:
    if sent != len(framed):
        time.sleep(600)  # a request was cut in two: nothing more fits


def _parts(place: Store) -> list[Path]:
    """The processes that keep the store: this one, and a server of its own where it has one."""
    own = [Path("/proc/self")]
    return [*own, Path(f"/proc/{place.server.pid}")] if isinstance(place, NatsStore) and place.server else own


def _mib(place: Store, kind: str) -> float:
    lines = [line for part in _parts(place) for line in (part / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) / 1024


def _cpu_s(place: Store) -> float:
    stats = [(part / "stat").read_text().rpartition(")")[2].split() for part in _parts(place)]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def _say(line: str) -> None:
    print(line, flush=True)


def main(words: Sequence[str]) -> int:
    """See above."""
    roles: dict[str, Callable[..., None]] = {"lead": lead, "speak": speak, "swallow": swallow, "flood": flood}
    role, store, *numbers = words
    roles[role](store, *map(int, numbers))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
