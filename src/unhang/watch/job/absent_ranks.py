"""Ranks that exist but have not come to ``init_process_group`` while others wait there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from unhang.watch.job.job_ranks import PROC, JobRank, JobRanks, output_files, update_activity
from unhang.watch.job.wait_detection import RankSample
from unhang.wire.process_registration import ProcessRegistration
from unhang.wire.record_views import RankIdentity, RecordView


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
        registrations = [p for p in members.registrations.values() if p.attempt == attempt and _lives(p.pid)]
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


def _lives(pid: int) -> bool:
    return Path(PROC, str(pid)).exists()


def _member(process: ProcessRegistration) -> JobRank:
    identity = RankIdentity(process.pid, process.rank, process.local_rank, process.world_size, process.attempt)
    return JobRank(process.rank, process.pid, RecordView(identity), process, outputs=output_files(process.pid))
