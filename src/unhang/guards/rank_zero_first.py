"""``rank_zero_first("tokenisation")``: one rank does it, the others wait on the store and then do it from its cache.

No collective waits here, so no watchdog ends a job whose rank 0 tokenises for an hour.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from dataclasses import astuple
from types import TracebackType

from unhang.errors import RankFailed, StoreLost, UsageError
from unhang.guards.arguments import checked_seconds, checked_text
from unhang.guards.call_site import calling_frame, innermost_user_line
from unhang.guards.exchange.missing_ranks import ranks_missing_error
from unhang.guards.exchange.printing import exception_text, print_message
from unhang.guards.exchange.rank_exchange import GatheredValues, RankExchange, current_exchange
from unhang.guards.phases import phase
from unhang.inprocess import annotations as marked
from unhang.wire.guard_statement import GuardStatement
from unhang.wire.record_views import CodeLine

A_DAY_S = 86400.0
HEARTBEAT_S = 2.0
START_LIMIT_S = 300.0
"""So long the first rank may take to get here; it may be busy with what comes before."""
SILENT_LIMIT_S = 600.0
"""A rank of another machine that gives no sign of life for so long is taken for dead. One C call may hold the
interpreter lock for minutes; a rank of this machine is asked for from the kernel."""
FIRST_LINE_S = 10.0
NEXT_LINE_S = 60.0
_LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_LOCAL_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


class rank_zero_first:  # noqa: N801 - used like a function
    """The block runs on rank 0 first, then on all others at once; gives True on the rank that is first.

    The others wait on the job's store, without a collective, and say every minute what they wait for. An exception on
    rank 0 reaches them, and so does its death. Without torch.distributed, and in a group of one, the block just runs.

    Args:
        what: what is done, for the lines and errors: ``tokenisation``. The same on every rank.
        timeout_s: how long the block may take on the first rank, in seconds; a day when not given.
        local: one rank of each machine is first (its local rank 0), for files that machines do not share.

    Raises:
        RankFailed: the first rank raised inside, died, or was not done within ``timeout_s``.
        RanksMissing: the first rank does not come here at all.
        StoreLost: the store of the job is gone.
        UsageError: no name, no sensible limit, or ``local`` and nothing tells the local rank.
    """

    def __init__(self, what: str = "preparation", *, timeout_s: float | None = None, local: bool = False) -> None:
        self._what = checked_text("rank_zero_first", "what", what)
        self._timeout_s = None if timeout_s is None else checked_seconds("rank_zero_first", "timeout_s", timeout_s)
        self._local = local
        self._first = True
        self._here: RankExchange | None = None
        self._phase = phase(self._what, at_most_s=timeout_s)

    def __enter__(self) -> bool:
        self._here = current_exchange()
        if self._here is not None:
            self._take_part(self._here)
        self._phase.__enter__()
        return self._first

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._phase.__exit__(kind, error, at)
        if self._here is None or not self._first:
            return
        self._beat.stop()
        said = "" if error is None else exception_text(error)
        try:
            self._here.announce(f"{self._turn}/done", json.dumps(said).encode())
        except StoreLost:
            if error is None:
                raise

    def _take_part(self, here: RankExchange) -> None:
        local_rank = _number(_LOCAL_RANK) if self._local else here.rank
        if local_rank is None:
            raise UsageError(f"rank_zero_first({self._what!r}, local=True): the local rank is unknown; set LOCAL_RANK")
        others = (_number(_LOCAL_SIZE) or 0) - 1 if self._local else here.world_size - 1
        place = f"@{socket.gethostname()}" if self._local else ""
        self._turn = here.turn(f"rank_zero_first({self._what!r}){place}")
        self._first = local_rank == 0
        if self._first:
            self._beat = _Heartbeat(here, self._turn)
            return
        wait = _WaitForFirst(here, self._turn, self._what, here.rank - local_rank, speaks=local_rank == 1)
        wait.for_the_first(self._timeout_s or A_DAY_S)
        if here.count(f"{self._turn}/read") == others:
            here.forget(*(f"{self._turn}/{key}" for key in ("done", "beat", "read")))


class _Heartbeat:
    """The first rank's sign of life: a number that grows, and the line it stands on."""

    def __init__(self, here: RankExchange, turn: str) -> None:
        self._here = here
        self._key = f"{turn}/beat"
        self._over = threading.Event()
        self._thread = threading.get_ident()
        self._give(0, None)
        threading.Thread(target=self._go_on, name="unhang-beat", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _go_on(self) -> None:
        number = 0
        while not self._over.wait(HEARTBEAT_S):
            number += 1
            frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - the one way to another thread's stack
            try:
                self._give(number, innermost_user_line(frame))
            except StoreLost:
                return

    def _give(self, number: int, line: CodeLine | None) -> None:
        place = None if line is None else astuple(line)
        self._here.announce(self._key, json.dumps([number, place, self._here.rank]).encode())


class _WaitForFirst:
    """A rank that waits for the first. ``speaks``: it prints what it waits for, one rank of all."""

    def __init__(self, here: RankExchange, turn: str, what: str, first: int, *, speaks: bool) -> None:
        self._here = here
        self._turn = turn
        self._what, self._guard = what, f"rank_zero_first({what!r})"
        self._first = first
        self._speaks = speaks
        self._number = -1
        self._line: CodeLine | None = None
        self._alive_s = time.monotonic()
        self._say_s = FIRST_LINE_S
        frame = calling_frame()
        self._where = f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def for_the_first(self, limit_s: float) -> None:
        """Until it is done. Raises as :class:`rank_zero_first` says."""
        marked.begin_wait(self._guard, (self._first,), limit_s=limit_s if limit_s < A_DAY_S else None)
        try:
            done = self._here.wait_for(f"{self._turn}/done", limit_s, self._no_more)
        finally:
            marked.end_wait()
        done = done if done is not None else self._here.poll(f"{self._turn}/done")  # it may have ended well meanwhile
        if done is None and self._number < 0:
            missing = GatheredValues({}, missing=(self._first,), turn=self._turn)
            raise ranks_missing_error(self._here, self._guard, missing, min(limit_s, START_LIMIT_S))
        if done is None:
            raise self._not_done(limit_s)
        if reason := json.loads(done):
            said = GuardStatement("failed", self._guard, (self._first,), detail=reason)
            raise self._failed(f"failed: {reason}", said, reason=reason)

    def _no_more(self, waited_s: float) -> bool:
        self._look()
        silent_s = time.monotonic() - self._alive_s
        if self._number < 0:
            return waited_s > START_LIMIT_S
        if self._is_dead() or (silent_s > SILENT_LIMIT_S and self._kernel_says() is not True):
            return True
        if self._speaks and waited_s >= self._say_s:
            self._say_s = waited_s + NEXT_LINE_S
            at = f", at {_text(self._line)}" if self._line else ""
            still = f" (no sign of life for {silent_s:.0f} s)" if silent_s > 10 * HEARTBEAT_S else ""
            still = " (its process is stopped)" if self._kernel_says() is False else still
            others = self._here.world_size - 1
            wait = "rank waits" if others == 1 else "ranks wait"
            print_message(
                f"{self._what}: rank {self._first} has worked on it for {waited_s:.0f} s{at}{still}; "
                f"{others} {wait} on the store, where no watchdog limit applies"
            )
        return False

    def _look(self) -> None:
        beat = self._here.poll(f"{self._turn}/beat")
        if beat is None:
            return
        number, place, self._first = json.loads(beat)
        self._line = place and CodeLine(*place)
        if number != self._number:
            self._number, self._alive_s = number, time.monotonic()

    def _is_dead(self) -> bool:
        return self._here.peers is not None and self._here.peers.is_dead(self._first)

    def _kernel_says(self) -> bool | None:
        """Whether the first rank's process is alive and not stopped; None where it is on another machine."""
        return None if self._here.peers is None else self._here.peers.is_running(self._first)

    def _not_done(self, limit_s: float) -> RankFailed:
        seen = f", last seen at {_text(self._line)}" if self._line else ""
        if self._is_dead():
            return self._failed(f"ended before it was done{seen}; see its output")
        if self._kernel_says() is False:
            return self._failed(f"is stopped (SIGSTOP or a debugger){seen}; to continue it: kill -CONT PID")
        if (silent_s := time.monotonic() - self._alive_s) > SILENT_LIMIT_S:
            return self._failed(f"gave no sign of life for {silent_s:.0f} s{seen}")
        why = f"is not done after {limit_s:.0f} s{seen}; if that is normal, give rank_zero_first a longer timeout_s"
        said = GuardStatement("slow", self._guard, (self._first,), at=self._line, waited_s=limit_s)
        return self._failed(why, said)

    def _failed(self, why: str, said: GuardStatement | None = None, *, reason: str = "") -> RankFailed:
        message = f"{self._guard} at {self._where}: rank {self._first} {why}"
        return RankFailed(message, rank=self._first, reason=reason or why, statement=said.line() if said else "")


def _text(line: CodeLine) -> str:
    return f"{line.file}:{line.line} in {line.function}"


def _number(names: tuple[str, ...]) -> int | None:
    return next((int(value) for name in names if (value := os.environ.get(name, "")).isdigit()), None)
