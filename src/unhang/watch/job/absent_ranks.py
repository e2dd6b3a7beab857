"""Ranks that exist but have not come to ``init_process_group`` while others wait there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from unhang.records.process_registration import ProcessRegistration
from unhang.records.record_views import RankIdentity, RecordView
from unhang.watch.job.job_ranks import PROC, JobRank, JobRanks, output_files, update_activity
from unhang.watch.job.wait_detection import RankSample


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
        births = [birth for birth in members.births.values() if birth.attempt == attempt and _lives(birth.pid)]
        found = {}
        for rank, birth in rank_processes(births).items():
            if rank not in members.by_rank and rank < (members.world_size or 0):
                known = self.by_rank.get(rank)
                found[rank] = known if known is not None and known.pid == birth.pid else _member(birth)
                update_activity(found[rank])
        self.by_rank = found

    def samples(self) -> Mapping[int, RankSample]:
        """Every one of them at this moment."""
        return {rank: member.sample() for rank, member in sorted(self.by_rank.items())}


def rank_processes(births: Iterable[ProcessRegistration]) -> dict[int, ProcessRegistration]:
    """Of all processes that were given a rank the one that is it: children inherit RANK, and launchers may have one.

    A process whose children have other ranks is a launcher; of the rest the outermost is the rank, the newest where
    programs follow one another.
    """
    every = {birth.pid: birth for birth in births if birth.rank >= 0}
    launchers = {birth.ppid for birth in every.values() if birth.ppid in every and every[birth.ppid].rank != birth.rank}
    found: dict[int, ProcessRegistration] = {}
    for birth in sorted(every.values(), key=lambda birth: birth.started_s):
        parent = every.get(birth.ppid)
        inherited = parent is not None and parent.rank == birth.rank and parent.pid not in launchers
        if birth.pid not in launchers and not inherited:
            found[birth.rank] = birth
    return found


def _lives(pid: int) -> bool:
    return Path(PROC, str(pid)).exists()


def _member(birth: ProcessRegistration) -> JobRank:
    identity = RankIdentity(birth.pid, birth.rank, birth.local_rank, birth.world_size, birth.attempt)
    return JobRank(birth.rank, birth.pid, RecordView(identity), birth, outputs=output_files(birth.pid))
