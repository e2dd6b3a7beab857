"""Whose each file is, where what was named is of more than one job: the logs of two days are no story of one.

Files are told apart only where they are apart in time and something else says so too; in doubt they are of one job.
Each job's files become facts by themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import Any

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.facts.world_size import stated_size
from unhang.findings import Source
from unhang.sentences import Text, say
from unhang.wire.documents.bundle import folder_of

ZONES_S = 26 * 3600.0
"""Clocks that show the same moment may be so far apart: UTC+14 and UTC-12."""
YEAR_S = 365 * 86_400.0
OWN_FILES = ("logs", "recorder_dumps", "stacks")
"""Each is of one job. What lies in no run folder and is none of these belongs to every job."""


@dataclass(slots=True)
class JobFiles:
    """What was read of one job. ``names``: its files, and run folders for all they hold, as the user would name them;
    ``begin_s`` and ``end_s``: from when to when they tell of it."""

    evidence: EvidenceSet
    names: tuple[str, ...] = ()
    begin_s: float | None = None
    end_s: float | None = None
    apart_by: tuple[Text, ...] = field(default=())
    """Besides the time: what differs between it and the job before it."""

    def take(self, other: JobFiles) -> None:
        """Add the files of ``other``, which are of the same job."""
        for name in _LISTS:
            getattr(self.evidence, name).extend(getattr(other.evidence, name))
        self.names += other.names
        self.end_s = max((end for end in (self.end_s, other.end_s) if end is not None), default=None)


_LISTS = tuple(each.name for each in fields(EvidenceSet) if each.name != "inputs")


def separate_jobs(evidence: EvidenceSet) -> tuple[JobFiles, ...]:
    """The files of each job in order of time; all of them together where they may be of one."""
    together = (JobFiles(evidence),)
    if len(evidence.logs) + len(evidence.recorder_dumps) + len(evidence.manifests) < 2:
        return together
    shared, units = _units(evidence)
    dated = sorted((one for one in units if one.begin_s is not None), key=lambda one: (one.begin_s, one.names))
    jobs: list[JobFiles] = []
    for one in dated:
        if jobs and not _are_apart(jobs[-1], one):
            jobs[-1].take(one)
        else:
            jobs.append(one)
    if len(jobs) < 2:
        return together
    jobs = _joined_where_alike(jobs)
    undated = [one for one in units if one.begin_s is None]
    owners = [[job for job in jobs if _folders(job) & _folders(one)] for one in undated]
    if len(jobs) < 2 or any(len(found) != 1 for found in owners):
        return together
    for one, (owner,) in zip(undated, owners, strict=True):
        owner.take(one)
    for job in jobs:
        job.take(shared)
        job.evidence.inputs = _inputs_of(job, jobs, evidence.inputs)
    return tuple(jobs)


def _units(evidence: EvidenceSet) -> tuple[JobFiles, list[JobFiles]]:
    """What is every job's; and each run folder and each other file by itself."""
    folders = {folder_of(manifest) for manifest in evidence.manifests}
    shared, units = JobFiles(EvidenceSet()), defaultdict[str, JobFiles](lambda: JobFiles(EvidenceSet()))
    for name in _LISTS:
        for item in getattr(evidence, name):
            path = getattr(item, "source", Source("")).path
            folder = min((each for each in folders if path.startswith(each)), key=len, default=None)
            key = path if folder is None else folder.rstrip("/!")
            alone = folder is None and name not in OWN_FILES and key not in units
            getattr((shared if alone else units[key]).evidence, name).append(item)
    for key, unit in units.items():
        times = list(_times(unit.evidence))
        unit.names = (key,)
        unit.begin_s, unit.end_s = min(times, default=None), max(times, default=None)
    return shared, list(units.values())


def _times(evidence: EvidenceSet) -> Iterator[float]:
    """Moments of the job. A kernel's log tells of days before it."""
    spoken = [log for log in evidence.logs if log.role != "kernel"]
    told = [moment for log in spoken for moment in (log.first_time_s, log.last_time_s)]
    told += [stack.time_s for stack in evidence.stacks]
    told += [moment for one in evidence.manifests for moment in (one.stalled_since_s, one.taken_s)]
    yield from (moment for moment in told if moment is not None)
    for dump in evidence.recorder_dumps:
        created = dump.entries.created_ns[dump.entries.created_ns > 0]
        if len(created):
            yield from (float(created.min()) / 1e9, float(created.max()) / 1e9)


def _are_apart(job: JobFiles, later: JobFiles) -> bool:
    """Run folders count from the epoch; logs of one moment may show times of two zones, and no year."""
    gap = (later.begin_s or 0.0) - (job.end_s or 0.0)
    if job.evidence.manifests and later.evidence.manifests:
        return gap > 0
    if not all(log.has_year for one in (job, later) for log in one.evidence.logs):
        gap = min(gap, YEAR_S - gap % YEAR_S)
    return gap > ZONES_S


def _joined_where_alike(jobs: list[JobFiles]) -> list[JobFiles]:
    """Neighbours in time that nothing else tells apart are one job: a log, and stacks taken days later. A rank that is
    in both, days apart, ran twice; run folders know better, by their processes.
    """
    kept = jobs[:1]
    for job in jobs[1:]:
        job.apart_by = tuple(_differences(kept[-1].evidence, job.evidence))
        if job.apart_by or _is_rank_in_both(kept[-1].evidence, job.evidence):
            kept.append(job)
        else:
            kept[-1].take(job)
    return kept


def _is_rank_in_both(one: EvidenceSet, other: EvidenceSet) -> bool:
    return not (one.manifests and other.manifests) and not _ranks(one).isdisjoint(_ranks(other))


def _differences(one: EvidenceSet, other: EvidenceSet) -> Iterator[Text]:
    """What both tell, and not alike. One rank on two hosts is two ranks; others may be of two nodes of one job."""
    sizes = [stated_size(each.manifests, each.recorder_dumps, each.logs) for each in (one, other)]
    if None not in sizes and sizes[0] != sizes[1]:
        yield say("number of ranks")
    if _are_disjoint(_programs, one, other):
        yield say("program")
    if not _are_disjoint(_hosts, one, other):
        if _are_disjoint(_processes, one, other):
            yield say("processes")
    elif not _are_disjoint(_ranks, one, other):
        yield say("host")


def _are_disjoint(ask: Callable[[EvidenceSet], set[Any]], one: EvidenceSet, other: EvidenceSet) -> bool:
    told = ask(one), ask(other)
    return all(told) and not told[0] & told[1]


def _programs(evidence: EvidenceSet) -> set[str]:
    """Names of the scripts in which stacks begin."""
    stacks: list[tuple[Frame, ...]] = [one.frames for log in evidence.logs for one in log.tracebacks]
    stacks += [thread.frames for dump in evidence.stacks for thread in dump.threads]
    stacks += [frames for dump in evidence.recorder_dumps for frames in dump.entries.stacks]
    begins = (
        next((f for f in reversed(each) if f.function == "<module>" and is_user_frame(f)), None) for each in stacks
    )
    return {PurePosixPath(frame.file).name for frame in begins if frame is not None}


def _hosts(evidence: EvidenceSet) -> set[str]:
    hosts = {event.host for log in evidence.logs for event in log.events}
    hosts |= {raised.host for log in evidence.logs for raised in log.tracebacks}
    hosts |= {process.host for manifest in evidence.manifests for process in manifest.processes}
    return {host.partition(".")[0] for host in hosts if host}


def _ranks(evidence: EvidenceSet) -> set[int]:
    ranks = {rank for log in evidence.logs for rank in log.ranks} | {dump.rank for dump in evidence.recorder_dumps}
    return {rank for rank in ranks if rank is not None}


def _processes(evidence: EvidenceSet) -> set[int]:
    """As run folders know them, with the launcher: it stays when ranks are started anew."""
    pids = {process.pid for manifest in evidence.manifests for process in manifest.processes}
    return {pid for pid in pids | {manifest.launcher for manifest in evidence.manifests} if pid is not None}


def _folders(job: JobFiles) -> set[str]:
    return {name.replace("!", "/").rpartition("/")[0] for name in job.names}


def _inputs_of(job: JobFiles, jobs: list[JobFiles], inputs: list[str]) -> list[str]:
    """What the user named of it; its files, where something named holds files of several jobs."""

    def named(one: JobFiles) -> Mapping[str, str]:
        return {
            name: next((i for i in inputs if f"{name}/".startswith(f"{i.rstrip('/')}/")), name) for name in one.names
        }

    own = named(job)
    others = {shown for other in jobs if other is not job for shown in named(other).values()}
    return sorted({name if shown in others else shown for name, shown in own.items()})
