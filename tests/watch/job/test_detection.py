"""When a look is worth its cost, told from records alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from unhang.watch.job.wait_detection import RankSample, WaitDetector, WaitSnapshot
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.record_views import HIDDEN_COLLECTIVES, CodeLine, GroupProgress, RankIdentity, RecordView

S = 1_000_000_000
START = 1_000 * S


@dataclass
class Rank:
    """What one rank does, in words of a test."""

    phase: str = "communication"
    position: int = 20
    pending: bool = True
    changed_s: float = 0.0
    """Seconds after the start at which its counts and its stack changed last."""
    state: str = "S"
    cpu: float = 0.0
    beats: bool = True
    ended_s: float | None = None
    in_init: bool = False
    steps: int = 0
    backend: str = "gloo"
    closed: bool = False
    armed: bool = True
    top: str = "f"


@dataclass
class Job:
    """Feeds a detector; ``ranks`` may change between two looks."""

    ranks: dict[int, Rank]
    detector: WaitDetector = field(default_factory=WaitDetector)
    now_s: float = 0.0

    def at(self, now_s: float) -> WaitSnapshot | None:
        found = None
        while self.now_s < now_s:
            self.now_s = min(now_s, self.now_s + 0.25)
            found = self.look()
        return found

    def look(self) -> WaitSnapshot | None:
        now_ns = START + int(self.now_s * S)
        samples = {rank: self.of(rank, now_ns) for rank in self.ranks}
        return self.detector.judge(now_ns, self.detector.rank_states(now_ns, samples))

    def of(self, number: int, now_ns: int) -> RankSample:
        rank = self.ranks[number]
        changed_ns = START + int(rank.changed_s * S)
        done = rank.position - 1 if rank.pending else rank.position
        view = RecordView(
            identity=RankIdentity(
                pid=100 + number, rank=number, world_size=len(self.ranks), armed_ns=START if rank.armed else -1
            ),
            in_init=rank.in_init,
            closed=rank.closed,
            beat_ns=now_ns if rank.beats else changed_ns,
            phase="init" if rank.in_init else rank.phase,
            since_ns=changed_ns if rank.phase in ("communication", "data") or rank.cpu == 0 else now_ns,
            top=CodeLine("f.py", 1, rank.top),
            steps=rank.steps,
            groups=[] if rank.in_init else [group(rank, done, changed_ns)],
        )
        ended_ns = None if rank.ended_s is None else START + int(rank.ended_s * S)
        return RankSample(view, "" if ended_ns else rank.state, rank.cpu, ended_ns)


def group(rank: Rank, done: int, changed_ns: int) -> GroupProgress:
    return GroupProgress("0", 2, rank.position, -1, done, changed_ns, True, rank.backend)


def busy(**changes: object) -> Rank:
    return Rank(**{"phase": "compute", "pending": False, "cpu": 1.0, **changes})  # type: ignore[arg-type]


def test_ranks_that_all_compute_wait_for_nobody() -> None:
    job = Job({0: busy(), 1: busy(), 2: busy()})

    assert job.at(60.0) is None


@pytest.mark.parametrize("function", HIDDEN_COLLECTIVES)
def test_collectives_below_native_code_are_waited_in_too(function: str) -> None:
    """Hooks of backward, DDP's buckets and buffers: the Python frame says compute, Gloo says pending."""
    job = Job({0: Rank(phase="compute", top=function), 1: Rank(phase="compute", top=function)})

    snapshot = job.at(2.0)

    assert snapshot is not None
    assert snapshot.due


def test_everybody_inside_collectives_is_looked_at_after_a_second() -> None:
    job = Job({0: Rank(), 1: Rank(position=21)})

    assert not job.at(0.75).due  # type: ignore[union-attr]
    snapshot = job.at(1.25)
    assert snapshot is not None
    assert snapshot.due
    assert snapshot.urgent
    assert snapshot.laggards == ()


@pytest.mark.parametrize(
    ("laggard", "what"),
    [
        (Rank(state="T", pending=False, phase="compute"), RankActivity.STOPPED),
        (Rank(ended_s=0.0), RankActivity.DEAD),
        (Rank(beats=False, phase="compute", cpu=1.0), RankActivity.SILENT),
        (Rank(phase="other", pending=False), RankActivity.IDLE),
    ],
)
def test_a_laggard_that_will_not_come_is_looked_at_within_three_seconds(laggard: Rank, what: RankActivity) -> None:
    job = Job({0: Rank(), 1: laggard})

    snapshot = job.at(2.5)

    assert snapshot is not None
    assert snapshot.doing[1] is what
    assert snapshot.laggards == (1,)
    assert snapshot.urgent
    assert snapshot.due


def test_a_laggard_that_works_gets_more_time() -> None:
    job = Job({0: Rank(), 1: busy()})

    assert not job.at(2.0).due  # type: ignore[union-attr]
    snapshot = job.at(3.0)
    assert snapshot is not None
    assert snapshot.due
    assert not snapshot.urgent


def test_waits_that_ended_by_themselves_teach_patience() -> None:
    job = Job({0: Rank(), 1: busy()})
    job.at(8.0)  # rank 1 saves for 8 s
    job.ranks[0] = Rank(position=21, changed_s=8.0)
    job.look()
    job.ranks[0].changed_s = 10.0
    job.now_s = 10.0

    assert not job.at(20.0).due  # type: ignore[union-attr]
    assert job.at(27.0).due  # type: ignore[union-attr]


def test_a_dead_rank_is_urgent_even_in_a_patient_job() -> None:
    job = Job({0: Rank(), 1: busy()})
    job.detector.usual.some_waiting_s = 100.0
    job.ranks[1] = Rank(ended_s=0.0)

    assert job.at(1.25).due  # type: ignore[union-attr]


def test_a_pending_call_of_nccl_counts_whatever_the_thread_does() -> None:
    job = Job({0: busy(pending=True, backend="nccl"), 1: busy(backend="nccl")})

    snapshot = job.at(3.0)

    assert snapshot is not None
    assert snapshot.waiters == (0,)


def test_a_call_gloo_left_open_is_not_believed_while_its_rank_computes() -> None:
    job = Job({0: busy(pending=True), 1: busy()})

    assert job.at(30.0) is None


def test_ranks_inside_init_wait_for_those_who_have_not_come() -> None:
    job = Job({0: Rank(in_init=True), 1: busy(position=0)})

    assert not job.at(3.0).due  # type: ignore[union-attr]
    snapshot = job.at(5.0)
    assert snapshot is not None
    assert snapshot.due
    assert not snapshot.rhythm


def test_a_rank_that_has_not_come_to_init_is_the_one_they_wait_for() -> None:
    job = Job({0: Rank(in_init=True), 1: Rank(armed=False, beats=False, pending=False)})

    snapshot = job.at(5.0)

    assert snapshot is not None
    assert snapshot.due
    assert snapshot.laggards == (1,)
    assert snapshot.doing[1] is RankActivity.ABSENT
    assert not snapshot.urgent


def test_a_rank_stopped_before_it_came_to_init_is_stopped() -> None:
    job = Job({0: Rank(in_init=True), 1: Rank(armed=False, beats=False, pending=False, state="T")})

    snapshot = job.at(2.0)

    assert snapshot is not None
    assert snapshot.doing[1] is RankActivity.STOPPED


def test_a_whole_job_that_is_stopped_does_not_wait() -> None:
    job = Job({0: Rank(state="T"), 1: Rank(state="T")})

    assert job.at(30.0) is None


def test_a_rank_that_closed_its_group_is_waited_for_but_did_not_die() -> None:
    job = Job({0: Rank(), 1: Rank(ended_s=0.0, closed=True)})

    snapshot = job.at(2.0)

    assert snapshot is not None
    assert snapshot.doing[1] is RankActivity.OVER


def test_a_wait_for_a_rank_that_worked_tells_how_long_such_waits_are() -> None:
    job = Job({0: Rank(steps=5), 1: busy(steps=5)})
    job.at(12.0)
    assert job.detector.usual.laggard_working_s == 0.0

    job.ranks[0] = busy(steps=6)
    job.at(13.0)
    assert job.detector.usual.laggard_working_s == pytest.approx(12.0, abs=0.5)


def test_a_wait_before_the_first_steps_tells_nothing_of_later_ones() -> None:
    job = Job({0: Rank(position=2), 1: busy(position=2)})
    job.at(12.0)
    job.ranks[0] = busy(position=2)
    job.at(13.0)

    assert job.detector.usual.laggard_working_s == 0.0
