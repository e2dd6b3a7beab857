"""What the watcher knows of its job: data, which the steps of a tick read and change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unhang.watch.end_job import Abort
from unhang.watch.job.job_ranks import AbsentRanks, JobRank, JobRanks
from unhang.watch.job.wait_detection import RankSample, RankState, WaitDetector, WaitSnapshot
from unhang.watch.launch.run_settings import SettingsCollector
from unhang.watch.launch.tasks import Tasks
from unhang.watch.leader_tasks import LeaderTasks
from unhang.watch.machine.memory_evidence import MemoryWatch
from unhang.watch.moving_job import MovingJob
from unhang.watch.pace.pace_record import RunTotals
from unhang.watch.pace.rank_series import RankSeries
from unhang.watch.reporting.live_snapshot import LiveFile
from unhang.watch.run_folder import RunFolder
from unhang.watch.side_process import MachineSampling, SideProcess, SideQuestion, ask_history
from unhang.watch.stall_episode import StallEpisode
from unhang.watch.verdict.diagnosis_child import DiagnosisChild
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.verdict_summary import VerdictSummary


@dataclass(slots=True)
class JobState:
    """One run, from its first rank to its last: what was asked for, who is watched, what was found and said."""

    folder: RunFolder
    plan: RunPlan
    records: Path
    tasks: Tasks
    job_outputs: Mapping[str, str]
    """Regular files behind the standard output and error of the command."""

    members: JobRanks
    absent: AbsentRanks
    samples: Mapping[int, RankSample] = field(default_factory=dict)
    """Of our ranks, at this tick."""
    states: Mapping[int, RankState] = field(default_factory=dict)
    """What each of them does, by its own sample."""
    detector: WaitDetector = field(default_factory=WaitDetector)
    snapshot: WaitSnapshot | None = None
    """Who waits for whom at this tick; None where nobody does, or another node says it."""
    deaths_seen: tuple[int, int] = (0, 0)
    """For which the other ranks' dumps were asked: of ours, and when one of another node died."""

    episode: StallEpisode | None = None
    """The wait that goes on."""
    ended_episode: StallEpisode | None = None
    """The wait that seems to be over; ``end_confirmed_at`` (monotonic) it is."""
    end_confirmed_at: float = 0.0
    left: StallEpisode | None = None
    """The wait that ended with ranks of its job."""
    failure_explained: bool = False
    """What was said of it says why the job fails."""

    child: DiagnosisChild | None = None
    requests: int = 0
    """So many samples were begun."""
    can_judge: bool = False
    """What judges is loaded."""
    said: VerdictSummary | None = None
    """The last verdict that was printed."""
    abort: Abort | None = None
    """The job is being ended."""
    totals: RunTotals = field(default_factory=RunTotals)

    nodes: LeaderTasks = field(default_factory=LeaderTasks)
    moving: MovingJob = field(kw_only=True)
    memory: MemoryWatch = field(default_factory=MemoryWatch)
    series: RankSeries = field(kw_only=True)
    settings: SettingsCollector = field(kw_only=True)
    machine: MachineSampling = field(kw_only=True)
    history: SideQuestion = field(default_factory=ask_history)
    live: LiveFile = field(kw_only=True)
    metrics: SideProcess | None = None

    @property
    def everyone(self) -> dict[int, JobRank]:
        """Our ranks, those too that have no record yet."""
        return {**self.members.by_rank, **self.absent.by_rank}

    def ends(self) -> list[int]:
        """When ranks ended (monotonic nanoseconds), those of other nodes as we heard of it."""
        own = [member.ended_ns for member in self.members.by_rank.values() if member.ended_ns is not None]
        return [*own, died_ns] if (died_ns := self.nodes.died_ns()) else own
