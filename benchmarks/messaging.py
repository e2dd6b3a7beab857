"""What carries values between watchers: our own store beside TCPStore, ``multiprocessing.connection``, ZeroMQ and NATS.

    python -m benchmarks messaging [--nodes 125 1250] [--seconds 15] [--through ours zmq …] [--keep FILE]

The traffic of ``many-nodes`` and nothing else: every node has a connection of its own, and twice a second it says a
digest of 200 bytes and hears the leader's order; twice a second the leader, in the process that keeps the store, gives
an order and reads the digests of all. A round is one of these, seen from the leader or from a node. Then the same with
peers that misbehave: one stopped in the middle of a large answer, one that asks on and reads nothing, 64 that connect
and say nothing, a stranger that asks without the token, the keeper stopped, and killed. All of it runs on this
machine's processors, over loopback.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import AuthenticationError, connection
from pathlib import Path
from typing import Any

from benchmarks.other_stores import STORES, ConnectionStore
from benchmarks.store_peers import FLOOD_S, HERE, TOKEN, opened
from unhang.watch.nodes.transport.key_value_exchange import ExchangeError

SILENT_STRANGERS = 64
ERROR_LIMIT_S = 20.0
Line = subprocess.Popen[str]


@dataclass(slots=True)
class Measured:
    """One store. Times in ms, memory in MiB; ``stopped``, ``flooded``: while a peer does that; ``*_s``: how long a call
    took to fail, or (``let_in_s``) to be answered beside silent strangers; -1: not within 20 s."""

    store: str
    nodes: int
    heard: int
    round_ms: float
    round_p99_ms: float
    node_ms: float
    node_p99_ms: float
    cpu_ms: float
    mib: float
    connect_s: float
    failed: int
    stopped_p99_ms: float
    flooded_p99_ms: float
    flooded_mib: float
    let_in_s: float
    stranger_told: bool
    impostor_believed: bool
    keeper_stopped_s: float
    keeper_killed_s: float
    load: float


def measure(store: str, nodes: int, seconds: float, processes: int) -> Measured:
    """One store, with so many nodes."""
    port = 21_000 + secrets.randbelow(9_000)
    with ExitStack() as stack:
        leader = stack.enter_context(_peer("lead", store, port, nodes))
        ends = [nodes * at // processes for at in range(processes + 1)]
        crowd = [stack.enter_context(_peer("speak", store, port, *span)) for span in pairwise(ends)]
        _window(leader, 2.0)
        for part in crowd:
            _ask(part, "")
        calm = _window(leader, seconds)
        spoken = [_ask(part, "") for part in crowd]
        keeps = store != "nats"  # which hands on what is said and keeps nothing for who asks later
        stopped = _while_stopped(store, port, leader) if keeps else {"took": []}
        flooded, grown = _while_flooded(store, port, leader) if keeps else ({"took": []}, 0.0)
        let_in_s = _beside_strangers(store, port)
        told = _stranger_is_told(store, port)
        stopped_s = _after(store, port, leader, signal.SIGSTOP)
        os.killpg(leader.pid, signal.SIGCONT)
        killed_s = _after(store, port, leader, signal.SIGKILL)
    node_s = sorted(took for part in spoken for took in part["took"])
    return Measured(
        store=store,
        nodes=nodes,
        heard=calm["heard"],
        round_ms=_ms(calm["took"], 0.5),
        round_p99_ms=_ms(calm["took"], 0.99),
        node_ms=_ms(node_s, 0.5),
        node_p99_ms=_ms(node_s, 0.99),
        cpu_ms=1000 * calm["cpu_s"] / max(1, len(calm["took"])),
        mib=calm["mib"],
        connect_s=max(part["connect_s"] for part in spoken),
        failed=sum(part["failed"] for part in spoken),
        stopped_p99_ms=_ms(stopped["took"], 0.99),
        flooded_p99_ms=_ms(flooded["took"], 0.99),
        flooded_mib=grown,
        let_in_s=let_in_s,
        stranger_told=told,
        impostor_believed=store == "tcpstore" or (store == "connection" and impostor_is_believed()),
        keeper_stopped_s=stopped_s,
        keeper_killed_s=killed_s,
        load=os.getloadavg()[0],
    )


@contextmanager
def _peer(role: str, store: str, *numbers: int) -> Iterator[Line]:
    words = [sys.executable, "-m", "benchmarks.store_peers", role, store, *map(str, numbers)]
    quiet = {**os.environ, "TORCH_CPP_LOG_LEVEL": "FATAL", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=quiet, start_new_session=True
    )
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise ChildProcessError(f"{role} of {store} did not begin")
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ask(process: Line, line: str, limit_s: float = 2 * ERROR_LIMIT_S) -> dict[str, Any]:
    """Its answer; one without figures where there is none in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    if not select.select([process.stdout], [], [], limit_s)[0]:
        return {"took": [], "now_mib": -1.0, "mib": -1.0, "cpu_s": 0.0, "heard": 0, "failed": -1, "connect_s": -1.0}
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told


def _window(leader: Line, seconds: float) -> dict[str, Any]:
    return _ask(leader, str(seconds), seconds + ERROR_LIMIT_S)


def _while_stopped(store: str, port: int, leader: Line) -> dict[str, Any]:
    with _peer("swallow", store, port) as peer:
        time.sleep(0.5)
        peer.send_signal(signal.SIGSTOP)
        return _window(leader, 5.0)


def _while_flooded(store: str, port: int, leader: Line) -> tuple[dict[str, Any], float]:
    """(the window, by how many MiB the leader grew)."""
    before = _window(leader, 0.1)["now_mib"]
    with _peer("flood", store, port):
        window = _window(leader, FLOOD_S)
        return window, window["now_mib"] - before


def _beside_strangers(store: str, port: int) -> float:
    with ExitStack() as stack:
        for _ in range(SILENT_STRANGERS):
            stack.enter_context(socket.create_connection((HERE, port), 5))
        began_s = time.monotonic()
        try:
            opened(store, port, limit_s=ERROR_LIMIT_S).close()
        except ExchangeError:
            return -1.0
        return time.monotonic() - began_s


def _stranger_is_told(store: str, port: int) -> bool:
    """Whether somebody without the token reads what a node said."""
    with suppress(ExchangeError):
        return bool(STORES[store](HERE, port, keep=False, token="another-token-here").get(["d/0"]))
    return False


def impostor_is_believed() -> bool:
    """Somebody who does not know the token sits at the port: has one client answer the challenge of another."""
    believed: list[str] = []
    with socket.create_server((HERE, 0)) as listener:
        port = listener.getsockname()[1]

        def ask() -> None:
            with suppress(ExchangeError, OSError, EOFError, AuthenticationError):
                ConnectionStore(HERE, port, keep=False, token=TOKEN).put("h/0", b"secret-host-name")

        for _ in range(2):
            threading.Thread(target=ask, daemon=True).start()
        first, second = (connection.Connection(listener.accept()[0].detach()) for _ in range(2))
        with suppress(OSError, EOFError, AssertionError):
            first.send_bytes(b"#CHALLENGE#" + bytes(20))
            first.recv_bytes(256)
            first.send_bytes(b"#WELCOME#")  # whatever it answered
            second.send_bytes(first.recv_bytes(256))  # its challenge to us, for the other to answer
            first.send_bytes(second.recv_bytes(256))
            if first.recv_bytes(256) == b"#WELCOME#":
                believed.append(first.recv_bytes(4096).decode(errors="replace"))
    return bool(believed) and "secret-host-name" in believed[0]


def _after(store: str, port: int, leader: Line, number: signal.Signals) -> float:
    """Seconds until a call of a node fails once the keeper got the signal; -1: it did not."""
    friend = opened(store, port)
    os.killpg(leader.pid, number)
    began_s = time.monotonic()
    failed: list[float] = []

    def ask() -> None:
        try:
            while time.monotonic() - began_s < ERROR_LIMIT_S:
                friend.get(["w/0"])
        except ExchangeError:
            failed.append(time.monotonic() - began_s)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ERROR_LIMIT_S)
    return failed[0] if failed else -1.0


def _ms(took_s: Sequence[float], share: float) -> float:
    ordered = sorted(took_s)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else -1.0


def table(measured: Sequence[Measured]) -> str:
    """Markdown."""
    head = "| nodes | through | leader's round: median / p99, CPU | a node's round: median / p99 | memory | "
    head += "a peer stopped: p99 | a peer asks on and reads nothing: p99, growth | beside 64 silent strangers | "
    head += "stranger is told / impostor believed | keeper stopped / killed: known after | load |"
    rows = [head, "|---:|---|---|---|---:|---:|---|---:|---|---|---:|"]
    rows += [
        f"| {m.nodes:,} | {m.store} | {m.round_ms:.0f} / {m.round_p99_ms:.0f} ms, {m.cpu_ms:.0f} ms | "
        f"{m.node_ms:.2f} / {m.node_p99_ms:.1f} ms | {m.mib:.0f} MiB | {_milliseconds(m.stopped_p99_ms)} | "
        f"{_milliseconds(m.flooded_p99_ms)}, {m.flooded_mib:+.0f} MiB | {_seconds(m.let_in_s)} | "
        f"{'yes' if m.stranger_told else 'no'} / {'yes' if m.impostor_believed else 'no'} | "
        f"{_seconds(m.keeper_stopped_s)} / {_seconds(m.keeper_killed_s)} | {m.load:.1f} |"
        for m in measured
    ]
    return "\n".join(rows)


def _milliseconds(took_ms: float) -> str:
    return "none" if took_ms < 0 else f"{took_ms:.0f} ms"


def _seconds(took_s: float) -> str:
    return "never" if took_s < 0 else f"{took_s:.1f} s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table; 1 where ours lost a node or a call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[125, 1250])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--through", nargs="+", choices=list(STORES), default=list(STORES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="write the figures there, as JSON")
    asked = parser.parse_args(arguments)
    measured = []
    for nodes in asked.nodes:
        for store in asked.through:
            measured.append(measure(store, nodes, asked.seconds, asked.processes))
            print(measured[-1], file=sys.stderr, flush=True)
    print(table(measured))
    if asked.keep:
        asked.keep.write_text(json.dumps([asdict(one) for one in measured], indent=1))
    return int(any(m.store == "ours" and (m.heard < m.nodes or m.failed) for m in measured))


if __name__ == "__main__":
    raise SystemExit(main())
