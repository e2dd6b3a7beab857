"""The ranks of the job on this machine: which process each one is, whether it lives, and how it ended.

Who exists and has not come to ``init_process_group`` while others wait there is an absent rank.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from unhang.watch.job.wait_detection import RankSample
from unhang.watch.process_state.proc_processes import PROC, children_of, stat_fields, state_of
from unhang.wire.process_registration import ProcessRegistration, read_registrations
from unhang.wire.record import read_records
from unhang.wire.record_views import RankIdentity, RecordView

CPU_WINDOW_S = 1.0


@dataclass(slots=True)
class JobRank:
    """One rank's process. ``exit_code``: a signal is negative; None while it lives, or when nobody saw its end."""

    rank: int
    pid: int
    view: RecordView
    registration: ProcessRegistration | None = None
    pidfd: int | None = None
    started_ticks: int = 0
    ended_ns: int | None = None
    ended_s: float | None = None
    exit_code: int | None = None
    outputs: dict[str, str] = field(default_factory=dict)
    """Regular files behind its standard output and error: ``stdout`` → path."""
    cpu: list[tuple[int, float]] = field(default_factory=list)
    cpu_share: float = 1.0
    state: str = "S"

    def sample(self) -> RankSample:
        """This rank at this moment."""
        return RankSample(self.view, self.state, self.cpu_share, self.ended_ns)


@dataclass(slots=True)
class JobRanks:
    """All ranks seen so far; the newest process of each rank."""

    records: Path
    by_rank: dict[int, JobRank] = field(default_factory=dict)
    registrations: dict[int, ProcessRegistration] = field(default_factory=dict)
    """By pid. Having RANK does not make a rank."""
    deaths: int = 0
    _poll: select.poll = field(default_factory=select.poll)
    _by_fd: dict[int, JobRank] = field(default_factory=dict)

    def refresh(self) -> None:
        """Read every record, and the state of every process."""
        for registration in read_registrations(self.records):
            self.registrations.setdefault(registration.pid, registration)
        views = read_records(self.records).values()
        for view in sorted(views, key=lambda view: view.identity.armed_ns):
            self._take(view)
        self._forget_earlier_jobs()
        for member in self.by_rank.values():
            if member.ended_ns is None:
                update_activity(member)

    def wait(self, limit_s: float, others: Iterable[int | None] = ()) -> None:
        """Sleep for ``limit_s``, less when a rank ends meanwhile, or a process whose pidfd is one of ``others``."""
        also = [number for number in others if number is not None]
        for number in also:
            self._poll.register(number, select.POLLIN)
        try:
            for number, _ in self._poll.poll(limit_s * 1000):
                if number in self._by_fd:
                    self._note_end(self._by_fd[number])
        finally:
            for number in also:
                self._poll.unregister(number)  # closed and still registered it would wake us for ever

    @property
    def world_size(self) -> int | None:
        """As the newest records tell."""
        told = [m.view.identity.world_size for m in self.by_rank.values()]
        told += [b.world_size for b in self.registrations.values() if not told]
        return max((size for size in told if size > 0), default=None)

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of which there is no record."""
        return tuple(rank for rank in range(self.world_size or 0) if rank not in self.by_rank)

    def samples(self) -> Mapping[int, RankSample]:
        """Every rank at this moment."""
        return {rank: member.sample() for rank, member in sorted(self.by_rank.items())}

    def infer_clean_exits(self) -> None:
        """The command ended with 0. Of a rank that shut down in order, and whose launcher was quicker to ask how it
        ended than we were, that tells the exit code."""
        for member in self.by_rank.values():
            if member.ended_ns is not None and member.exit_code is None and member.view.ended:
                member.exit_code = 0

    def _take(self, view: RecordView) -> None:
        me = view.identity
        known = self.by_rank.get(me.rank)
        if known is not None and known.pid == me.pid:
            known.view = view
            return
        if known is not None and known.view.identity.armed_ns > me.armed_ns:
            return
        if known is not None:
            self._let_go(known)
        member = JobRank(me.rank, me.pid, view, self.registrations.get(me.pid))
        member.outputs = output_files(me.pid)
        self.by_rank[me.rank] = member
        try:
            member.pidfd = os.pidfd_open(me.pid)
        except (OSError, AttributeError):
            if not state_of(me.pid):
                self._note_end(member)
            return
        self._by_fd[member.pidfd] = member
        self._poll.register(member.pidfd, select.POLLIN)

    def _forget_earlier_jobs(self) -> None:
        """A rank that ended before the newest one armed belongs to an earlier attempt, or to an earlier job."""
        newest = max((m.view.identity.armed_ns for m in self.by_rank.values()), default=0)
        for rank, member in list(self.by_rank.items()):
            earlier = member.view.identity.attempt < max(m.view.identity.attempt for m in self.by_rank.values())
            if member.ended_ns is not None and (member.ended_ns < newest or earlier):
                del self.by_rank[rank]

    def _note_end(self, member: JobRank) -> None:
        member.ended_ns, member.ended_s = time.monotonic_ns(), time.time()
        member.exit_code = _zombie_exit_code(member.pid)
        member.state = ""
        self.deaths += 1
        self._let_go(member)

    def _let_go(self, member: JobRank) -> None:
        if member.pidfd is not None:
            with suppress(KeyError, OSError):
                self._poll.unregister(member.pidfd)
            self._by_fd.pop(member.pidfd, None)
            with suppress(OSError):
                os.close(member.pidfd)
            member.pidfd = None


def output_files(pid: int) -> dict[str, str]:
    """Regular files behind a process's standard output and error."""
    found = {}
    for number, name in ((1, "stdout"), (2, "stderr")):
        with suppress(OSError):
            path = (PROC / str(pid) / "fd" / str(number)).readlink()
            if path.is_file():
                found[name] = str(path)
    return found


def _zombie_exit_code(pid: int) -> int | None:
    """How an ended process that nobody reaped yet ended; None when it is gone or may not be seen."""
    fields = stat_fields(pid)
    if len(fields) < 50 or fields[0] != "Z":
        return None
    return os.waitstatus_to_exitcode(int(fields[49]))


def update_activity(member: JobRank) -> None:
    """Its state, and the share of a processor it used since about a second."""
    fields = stat_fields(member.pid)
    if not fields:
        return
    member.state = fields[0]
    # utime, stime, and those of children it reaped; live children are added.
    ticks = sum(int(fields[at]) for at in (11, 12, 13, 14)) + _children_ticks(member.pid)
    now_ns, cpu_s = time.monotonic_ns(), ticks / os.sysconf("SC_CLK_TCK")
    member.cpu = [seen for seen in member.cpu if now_ns - seen[0] < 1e9 * 2 * CPU_WINDOW_S]
    earlier = [seen for seen in member.cpu if now_ns - seen[0] >= 1e9 * CPU_WINDOW_S]
    if earlier:
        at_ns, before_s = earlier[-1]
        member.cpu_share = (cpu_s - before_s) / ((now_ns - at_ns) / 1e9)
    member.cpu.append((now_ns, cpu_s))


def _children_ticks(pid: int) -> int:
    total = 0
    for child in children_of(pid):
        fields = stat_fields(child)
        total += sum(int(fields[at]) for at in (11, 12)) if len(fields) > 12 else 0
    return total


class AbsentRanks:
    """Searched only while a rank waits inside ``init_process_group``. Without a record, they are seen from outside."""

    def __init__(self) -> None:
        self.by_rank: dict[int, JobRank] = {}

    def refresh(self, members: JobRanks) -> None:
        """Find them anew: who has armed meanwhile is absent no more."""
        if not any(member.view.in_init for member in members.by_rank.values()):
            self.by_rank.clear()
            return
        attempt = max(member.view.identity.attempt for member in members.by_rank.values())
        registrations = [p for p in members.registrations.values() if p.attempt == attempt and state_of(p.pid)]
        found = {}
        for rank, process in rank_processes(registrations).items():
            if rank not in members.by_rank and rank < (members.world_size or 0):
                known = self.by_rank.get(rank)
                found[rank] = known if known is not None and known.pid == process.pid else _member(process)
                update_activity(found[rank])
        self.by_rank = found

    def samples(self) -> Mapping[int, RankSample]:
        """Every one of them at this moment."""
        return {rank: member.sample() for rank, member in sorted(self.by_rank.items())}


def rank_processes(registrations: Iterable[ProcessRegistration]) -> dict[int, ProcessRegistration]:
    """Of all processes that were given a rank the one that is it: children inherit RANK, and launchers may have one.

    A process whose children have other ranks is a launcher; of the rest the outermost is the rank, the newest where
    programs follow one another.
    """
    every = {process.pid: process for process in registrations if process.rank >= 0}
    launchers = {p.ppid for p in every.values() if p.ppid in every and every[p.ppid].rank != p.rank}
    found: dict[int, ProcessRegistration] = {}
    for process in sorted(every.values(), key=lambda process: process.started_s):
        parent = every.get(process.ppid)
        inherited = parent is not None and parent.rank == process.rank and parent.pid not in launchers
        if process.pid not in launchers and not inherited:
            found[process.rank] = process
    return found


def _member(process: ProcessRegistration) -> JobRank:
    identity = RankIdentity(process.pid, process.rank, process.local_rank, process.world_size, process.attempt)
    return JobRank(process.rank, process.pid, RecordView(identity), process, outputs=output_files(process.pid))
