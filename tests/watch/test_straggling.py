"""A rank that holds the others up is found in a job that moves, with the step since when; an even job has none."""

from __future__ import annotations

import json
import random

from tests.facts.jobs import call, recording
from unhang.facts.pace.slow_rank_over_time import merged_pace, slow_rank_pace
from unhang.findings import Source
from unhang.watch.job.wait_detection import RankSample, is_in_communication
from unhang.watch.moving_job import REPEAT_PAUSE_SAMPLES, StragglerWatch, collectives_per_step
from unhang.watch.pace.pace_record import ENTRIES, MAX_PLACES, MAX_RANKS_TOLD, PaceRecord, StepHistory, pace_sample
from unhang.wire.documents.pace import Pace, read_pace
from unhang.wire.record_views import CodeLine, GroupProgress, RankIdentity, RecordView

MIN_SAMPLES = 60
"""Looks before anybody is blamed."""


class Job:
    """Records of a job's ranks; ``tick`` moves it on."""

    def __init__(self) -> None:
        self.watch, self.steps, self.now_ns = StragglerWatch(), 0, 1

    def tick(self, phases: dict[int, str], *, step_s: float = 0.05, moves: bool = True, steps: int = 5) -> int | None:
        if moves:
            self.steps += steps
            self.now_ns += int(steps * step_s * 1e9)
        slow = self.watch.add({rank: self.look(rank, phase) for rank, phase in phases.items()})
        return slow.rank if slow is not None else None

    def look(self, rank: int, phase: str) -> RankSample:
        group = GroupProgress("0", len(phase), enqueued=10 + self.steps, completed=10 + self.steps)
        view = RecordView(identity=RankIdentity(rank=rank), phase=phase, steps=self.steps, last_step_ns=self.now_ns)
        view.groups, view.user = [group], CodeLine("/job/train.py", {"log": 40, "compute": 20}.get(phase, 30), "main")
        return RankSample(view)


def asked(job: Job, times: int, phases: dict[int, str], **how: float) -> list[int]:
    found = [job.tick(phases, **how) for _ in range(times)]  # type: ignore[arg-type]
    return [rank for rank in found if rank is not None]


def even(turn: int) -> dict[int, str]:
    return {0: "communication", 1: "compute"} if turn % 2 else {0: "compute", 1: "communication"}


def test_the_only_rank_that_never_waits_is_asked_about_once_a_while() -> None:
    phases = {0: "communication", 1: "compute", 2: "communication"}

    assert asked(Job(), MIN_SAMPLES + REPEAT_PAUSE_SAMPLES - 1, phases) == [1]


def test_an_even_job_has_no_straggler() -> None:
    job = Job()

    assert [rank for turn in range(900) if (rank := job.tick(even(turn))) is not None] == []


def test_before_the_first_steps_nobody_is_slow() -> None:
    job = Job()
    job.steps = -10

    assert asked(job, 200, {0: "communication", 1: "compute"}, steps=0) == []


def test_a_rank_that_saves_alone_now_and_then_is_no_straggler() -> None:
    job = Job()
    found = []
    for _ in range(12):
        found += [job.tick(even(turn)) for turn in range(8)]
        found += [job.tick({0: "save", 1: "communication"}, moves=False) for _ in range(80)]

    assert {*found} == {None}


def test_work_that_grows_on_one_rank_is_told_with_the_step_since_when() -> None:
    job = Job()
    assert asked(job, 0, even(0)) == []
    for turn in range(200):
        assert job.tick(even(turn)) is None
    since = job.steps
    found = []
    for turn in range(200):
        found.append(job.tick({0: "log", 1: "communication"} if turn % 3 else even(turn), step_s=0.09))

    slow = job.watch.slow()
    assert [rank for rank in found if rank is not None] == [0]
    assert slow is not None
    assert slow.change is not None
    assert slow.excess is not None
    assert abs(slow.change.step - since) <= 40
    assert (round(slow.change.before_s, 2), round(slow.change.since_s, 2)) == (0.05, 0.09)
    assert slow.excess.phase == "log"
    assert slow.excess.frames[-1][1] == 40


def test_the_laggard_of_many_ranks_is_found_although_nobody_looks_at_all_of_them_at_once() -> None:
    job, rng = Job(), random.Random(3)
    found = []
    for _ in range(200):
        found.append(
            job.tick({r: "communication" if rng.random() < (0.05 if r == 5 else 0.7) else "compute" for r in range(32)})
        )

    assert [rank for rank in found if rank is not None] == [5]


def test_steps_that_grow_on_all_ranks_are_nobodys_fault() -> None:
    job = Job()
    found = [job.tick(even(turn), step_s=0.05 + turn / 4000) for turn in range(800)]

    assert {*found} == {None}


def test_what_is_written_down_reads_back_to_the_same() -> None:
    job = Job()
    asked(job, 200, {0: "log", 1: "communication"})

    back = read_pace(job.watch.record.pace().json(), source=Source("pace.json"))
    assert not hasattr(back, "reason")
    assert slow_rank_pace(back) == job.watch.slow()  # type: ignore[arg-type]


def test_memory_is_bounded_by_the_ranks() -> None:
    history, record = StepHistory(), PaceRecord()
    for step in range(100_000):
        history.note(step, step * 1000 + 1)
    for line in range(5000):
        view = RecordView(user=CodeLine(f"/job/{line}.py", line, "f"))
        record.add({rank: pace_sample(view, waits=False) for rank in range(2)})

    assert len(history.steps) < ENTRIES
    assert list(history.steps) == sorted(history.steps)
    assert max(len(rank.places) for rank in record.ranks.values()) <= MAX_PLACES
    many = PaceRecord()
    many.add({rank: pace_sample(RecordView(), waits=rank > 0) for rank in range(10_000)})
    told = [rank.rank for rank in many.pace().ranks]
    assert len(told) == MAX_RANKS_TOLD
    assert 0 in told


def test_the_history_keeps_the_mean_of_what_it_folds() -> None:
    history, rng, now = StepHistory(), random.Random(1), 1
    for step in range(1, 2001):
        now += int(rng.uniform(0.01, 0.03) * 1e9)
        history.note(step, now)

    mean = sum(s * n for s, n in zip(history.seconds, history.counts, strict=True)) / sum(history.counts)
    assert 0.019 < mean < 0.021


def test_a_record_of_the_pace_that_cannot_be_right_is_unread() -> None:
    for bad in (b"{", b'{"schema": "unhang.pace/1", "ranks": [{"rank": 0, "waits": 7}]}', b'{"schema": "x"}'):
        assert hasattr(read_pace(bad, source=Source("pace.json")), "reason")


def test_steps_before_the_rhythm_is_known_are_told_once_it_is() -> None:
    history = StepHistory()
    for calls in range(0, 900, 30):
        history.note(calls + 1, int(calls / 15 * (0.05 if calls < 600 else 0.2) * 1e9) + 1)

    steps = list(history.grouped_by(15).told())

    assert [step for step, _ in steps] == [calls // 15 for calls in range(31, 900, 30)]
    assert {round(seconds, 2) for step, seconds in steps if step < 40} == {0.05}


def test_collectives_become_steps_when_the_ranks_learn_how_many_there_are_in_one() -> None:
    record = PaceRecord()
    for calls in range(0, 3000, 30):
        view = RecordView(identity=RankIdentity(rank=0))
        view.groups = [GroupProgress("0", 1, enqueued=calls, completed=calls)]
        if calls >= 1500:
            view.steps, view.step_source, view.collectives_per_step = calls // 15, "rhythm", 15
            view.last_step_ns = calls
        record.note_steps({0: RankSample(view)})

    steps = [step for step, _ in record.ranks[0].steps.told()]

    assert steps == sorted(set(steps))
    assert steps[0] < 10
    assert steps[-1] == 198


def test_a_node_with_one_rank_tells_what_it_saw_and_says_nothing_itself() -> None:
    job = Job()
    for _ in range(MIN_SAMPLES + 40):
        job.steps += 5
        assert job.watch.add({3: job.look(3, "compute")}, {}, judges=False) is None

    assert job.watch.told is not None
    assert (job.watch.told.rank, job.watch.told.waits, job.watch.told.next) == (3, 0, -1)


def test_records_of_several_nodes_are_one() -> None:
    def paper(looks: int, ranks: list[dict[str, object]], name: str) -> Pace:
        content = json.dumps({"schema": "unhang.pace/1", "looks": looks, "ranks": ranks}).encode()
        found = read_pace(content, source=Source(name))
        assert isinstance(found, Pace)
        return found

    place = {"share": 1.0, "phase": "compute", "frames": [["/job/train.py", 7, "augment"]]}
    here = paper(120, [{"rank": 0, "waits": 0.8}, {"rank": 2, "waits": 0.05}], "h1/pace.json")
    there = paper(90, [{"rank": 2, "waits": 0.06, "places": [place]}, {"rank": 3, "waits": 0.9}], "h2/pace.json")

    whole = merged_pace([there, here])

    assert whole is not None
    assert (whole.samples, [rank.rank for rank in whole.ranks]) == (120, [0, 2, 3])
    slow = slow_rank_pace(whole)
    assert slow is not None
    assert (slow.rank, slow.others) == (2, 0.8)
    assert slow.excess is not None
    assert slow.excess.frames[0][2] == "augment"
    assert merged_pace([]) is None


def test_in_backward_a_rank_waits_while_a_call_of_it_is_open_and_computes_while_none_is() -> None:
    view = RecordView(phase="compute", top=CodeLine("torch/autograd/graph.py", 824, "_engine_run_backward"))
    view.groups = [GroupProgress("0", 2, enqueued=40, completed=40)]
    assert not is_in_communication(view)

    view.groups = [GroupProgress("0", 2, enqueued=41, completed=40)]
    assert is_in_communication(view)
    assert pace_sample(view, waits=True).phase == "communication"


def test_in_a_minute_a_rank_is_found_that_the_others_wait_for_a_fourth_of_the_time() -> None:
    job, rng = Job(), random.Random(5)
    found = [
        job.tick({r: "communication" if rng.random() < (0.02 if r == 1 else 0.27) else "compute" for r in range(3)})
        for _ in range(240)
    ]

    assert [rank for rank in found if rank is not None] == [1]


def test_in_ten_minutes_of_even_ranks_chance_blames_nobody() -> None:
    job, rng = Job(), random.Random(7)
    found = [job.tick({r: "communication" if rng.random() < 0.4 else "compute" for r in range(2)}) for _ in range(2400)]

    assert {*found} == {None}


def test_objects_of_another_size_each_time_are_still_one_round() -> None:
    calls = []
    for step in range(30):
        for operation, size, dtype in (
            ("all_reduce", 8, "Float"),
            ("all_gather", 1, "Long"),
            ("all_gather", 90 + step * 7 % 31, "Byte"),
        ):
            calls.append(call(len(calls) + 1, operation, size=(size,), dtype=dtype))

    assert collectives_per_step(recording(0, calls, groups={"0": (0, 1)})) == 3
