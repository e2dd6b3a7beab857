"""What the other ranks are doing: each rank tells its stack to whoever waits for it in vain.

Beside the training thread a thread listens on a local socket (this user's processes on this machine only); once in a
while it looks on the store whether a rank of another machine asks. A rank that cannot answer is looked at from outside.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from unhang.errors import StoreLost
from unhang.guards.call_site import stack_of
from unhang.guards.exchange.store_connection import StoreConnection
from unhang.watch.process_state.proc_processes import ProcessTable, stat_fields, state_of

ANSWER_LIMIT_S = 1.0
STACK_BYTES = 1 << 16
ASK_EVERY_S = 5.0
ASKED_A_SECOND = 200
SEARCH_S = 2.0
NO_LIMIT_S = 1e6
MAX_LOOKED_AT = 8
"""Stacks of so many ranks are fetched; the others are named."""
_PEER = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class PeerProcess:
    """A rank's process. ``host``: alike where processes see each other; ``started``: in ticks."""

    host: str
    machine: str
    pid: int
    started: str
    name: str

    def is_alive(self) -> bool | None:
        """None: it is on another host, nobody here can tell."""
        return _started(self.pid) == self.started if self.host == host_identity() else None


class PeerProcesses:
    """The processes of a job's ranks, as they introduced themselves on the store."""

    def __init__(self, connection: StoreConnection, rank: int, world_size: int, server: tuple[str, int] | None) -> None:
        self._connection = connection
        self._rank = rank
        self._server = server
        self._seen: dict[int, PeerProcess] = {}
        self._every_s = max(ASK_EVERY_S, world_size / ASKED_A_SECOND)
        self._main = threading.main_thread().ident
        listener, name = _listen()
        me = PeerProcess(host_identity(), socket.gethostname(), os.getpid(), _started(os.getpid()), name)
        said = json.dumps(astuple(me))
        connection.schedule(lambda store: store.set(f"peer/{rank}", said))
        threading.Thread(target=self._serve, args=(listener,), name="unhang-peers", daemon=True).start()

    def known(self, rank: int) -> PeerProcess | None:
        """The process of ``rank``; None while it never came to a guard."""
        said = self._connection.poll(f"peer/{rank}")
        return PeerProcess(*json.loads(said)) if said is not None else None

    def is_dead(self, rank: int) -> bool:
        """True once the process of ``rank`` has ended, where this rank can tell."""
        peer = self._of(rank)
        return peer is not None and peer.is_alive() is False

    def is_running(self, rank: int) -> bool | None:
        """Whether the process of ``rank`` is there and not stopped; None where this rank cannot tell."""
        peer = self._of(rank)
        alive = None if peer is None else peer.is_alive()
        return alive if peer is None or not alive else state_of(peer.pid) not in ("T", "t")

    def _of(self, rank: int) -> PeerProcess | None:
        peer = self._seen.get(rank) or self.known(rank)
        if peer is not None:
            self._seen[rank] = peer
        return peer

    def stacks_of(self, ranks: Sequence[int], turn: str, *, timeout_s: float) -> dict[int, str]:
        """What ``ranks`` are doing: a stack, or in words why there is none. All who are left ask for the same
        ``turn``; one of them looks for all. Ranks that could not be asked within ``timeout_s`` are not in it."""
        asked = list(ranks)[:MAX_LOOKED_AT]
        answers = [self._ask(rank, turn) for rank in asked]
        deadline = time.monotonic() + (timeout_s if any(answers) else min(timeout_s, SEARCH_S))
        found: dict[int, str] = {}
        while len(found) < len(asked):
            for rank in asked:
                key = f"{turn}/seen/{rank}"
                if rank not in found and (said := self._connection.poll(key)) is not None:
                    found[rank] = said.decode(errors="replace")
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        return found

    def _ask(self, rank: int, turn: str) -> bool:
        """False where nobody is known who could answer; a rank of another machine may still find its process."""
        peer = self.known(rank)
        if peer is None:
            pid = _pid_here(rank)
            if pid is None:
                return False
            self._look(turn, rank, lambda: _stack_from_outside(pid))
        elif peer.host == host_identity():
            self._look(turn, rank, lambda: _stack_from_rank(peer) or _stack_from_outside(peer.pid, peer))
        else:
            self._connection.do(lambda store: store.set(f"wanted/{rank}", turn))
        return True

    def _look(self, turn: str, rank: int, look: Callable[[], str]) -> None:
        """Look for all, unless another does already."""
        first = self._connection.do(lambda store: store.compare_set(f"{turn}/look/{rank}", "", str(self._rank)))
        if bytes(first) == str(self._rank).encode():
            seen = look()
            self._connection.do(lambda store: store.set(f"{turn}/seen/{rank}", seen))

    def _serve(self, listener: socket.socket | None) -> None:
        ask_at = time.monotonic() + self._every_s
        while True:
            try:
                if listener is None:
                    time.sleep(self._every_s)
                else:
                    listener.settimeout(max(0.01, ask_at - time.monotonic()))
                    self._answer(listener.accept()[0])
            except TimeoutError:
                pass
            except OSError:
                time.sleep(0.1)
            if time.monotonic() >= ask_at:
                if not self._answer_on_store():
                    self._every_s = NO_LIMIT_S
                ask_at = time.monotonic() + self._every_s

    def _answer(self, line: socket.socket) -> None:
        with line:
            line.settimeout(ANSWER_LIMIT_S)
            uid = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
            if uid in (os.getuid(), 0):
                line.sendall(self._stack())

    def _stack(self) -> bytes:
        frame = sys._current_frames().get(self._main or 0)  # noqa: SLF001 - the one way to another thread's stack
        return stack_of(frame).encode()[-STACK_BYTES:]

    def _answer_on_store(self) -> bool:
        """False once the store is gone. torch prints a stack for an operation on a dead one: look at its port first."""
        if self._server is None:
            return False
        with suppress(StoreLost, OSError):
            socket.create_connection(self._server, timeout=ANSWER_LIMIT_S).close()
            turn = self._connection.poll(f"wanted/{self._rank}")
            if turn is not None:
                self._connection.do(lambda store: store.delete_key(f"wanted/{self._rank}"))
                self._look(turn.decode(), self._rank, lambda: self._stack().decode())
            return True
        return False


def ranks_on_machine(rank: int) -> range:
    """The ranks of this machine, as the launcher numbers them; without a launcher this one."""
    local, size = (os.environ.get(name, "") for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if local.isdigit() and size.isdigit() and int(local) <= rank:
        return range(rank - int(local), rank - int(local) + int(size))
    return range(rank, rank + 1)


def host_identity() -> str:
    """The same in all processes that can reach each other's sockets and see each other's pids."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts = [Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()]
        parts += [str(Path(f"/proc/self/ns/{kind}").stat().st_ino) for kind in ("net", "pid")]
    return "/".join(parts)


def _listen() -> tuple[socket.socket | None, str]:
    name = f"\0unhang-{secrets.token_hex(16)}"
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(name)
        listener.listen(8)
    except OSError:  # not Linux: no names without files
        return None, ""
    return listener, name


def _stack_from_rank(peer: PeerProcess) -> str:
    """The stack, as the rank itself tells it; empty where it does not answer."""
    said = b""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(ANSWER_LIMIT_S)
        line.connect(peer.name)
        while len(said) < STACK_BYTES and (more := line.recv(1 << 14)):
            said += more
    return said.decode(errors="replace")


def _stack_from_outside(pid: int, peer: PeerProcess | None = None) -> str:
    from unhang.watch.process_state.stack_collection import sample_process

    if peer is not None and not peer.is_alive():
        return f"its process (pid {pid}) has ended"
    look = sample_process(pid)
    state = "is stopped (SIGSTOP, or a debugger)" if look.kernel.state in ("T", "t") else "does not answer"
    if look.dump is None:
        return f"its process (pid {pid}) {state}; no stack: {look.refused}"
    frames = next((thread.frames for thread in look.dump.threads if "Main" in thread.name), look.dump.threads[0].frames)
    lines = [f'  File "{frame.file}", line {frame.line}, in {frame.function}' for frame in reversed(frames)]
    return "\n".join([*([f"its process (pid {pid}) {state}"] if state.startswith("is") else []), *lines])


def _pid_here(rank: int) -> int | None:
    """The process of ``rank`` of this job on this machine, found by its environment."""
    from unhang.watch.process_state.rank_processes import ranks_of

    mine = [os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")]
    for live in ranks_of(ProcessTable.snapshot()):
        theirs = [live.environment.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")]
        if live.rank == rank and theirs == mine and live.process.uid == os.getuid():
            return live.pid
    return None


def _started(pid: int) -> str:
    fields = stat_fields(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]
