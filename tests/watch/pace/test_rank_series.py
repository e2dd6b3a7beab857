"""The run folder keeps how every rank went from start to end, in bounded space, and reads back as what it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unhang.findings import Phase, Source, Unread
from unhang.watch.job.wait_detection import RankSample
from unhang.watch.pace import rank_series
from unhang.watch.pace.rank_series import SERIES_PATH, RankSeries
from unhang.wire.record_views import CodeLine, GroupProgress, RankIdentity, RecordView
from unhang_compare.rank_times import OWN, WAITING, RankTimes, read_rank_series

TICK_S = 0.25


class Run:
    """Two ranks that step; rank 0 writes after each step for a share of it."""

    def __init__(self, folder: Path, *, max_bytes: int = 4 << 20) -> None:
        self.folder, self.ticks, self.steps, self.step_ended_ns = folder, 0, 0, 1
        self.series = RankSeries(folder, max_bytes=max_bytes)

    def tick(self, ticks: int, *, writes: float = 0.5, counted: bool = True, attempt: int = 0) -> None:
        for _ in range(ticks):
            self.ticks += 1
            self.steps += 5
            works = (self.ticks % 4) / 4 < writes
            self.series.add(
                {rank: self.look(rank, works == (rank == 0), counted, attempt) for rank in (0, 1)}, self.ticks * TICK_S
            )

    def look(self, rank: int, works: bool, counted: bool, attempt: int, *, ended: bool = True) -> RankSample:
        if ended:
            self.step_ended_ns = int(self.ticks * TICK_S * 1e9) + 1
        now_ns = int(self.ticks * TICK_S * 1e9) + 1
        view = RecordView(identity=RankIdentity(pid=10 + rank + 100 * attempt, rank=rank, attempt=attempt))
        view.beat_ns, view.beat_wall_ns = now_ns, now_ns + 10**18
        view.groups = [GroupProgress("0", 2, completed=3 * self.steps)]
        view.phase = "log" if works else "communication"
        view.user = CodeLine("/job/train.py", 40 if works else 30, "main")
        if counted:
            view.steps, view.last_step_ns, view.collectives_per_step = self.steps, self.step_ended_ns, 3
            view.step_durations_ns = [int(TICK_S * 1e9 / 5)] * 5
        return RankSample(view)

    def read(self) -> tuple[RankTimes, ...]:
        self.series.close()
        found = read_rank_series(self.folder / SERIES_PATH, source=Source("ranks.jsonl"))
        assert not isinstance(found, Unread), found
        return found


def test_steps_and_where_their_time_went_read_back(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.tick(200)

    first, second = run.read()

    assert (first.rank, second.rank) == (0, 1)
    assert first.step_s == pytest.approx([0.05] * len(first.step_s), rel=1e-3)
    assert int(first.last_step[-1]) == 1000
    own = {a.where.line: v.mean() for a, v in first.spent.items() if a.where is not None and a.kind == OWN}
    assert own[40] == pytest.approx(0.025, rel=0.1)
    assert {a.phase for a in first.spent if a.kind == WAITING} == {Phase.COMMUNICATION}


def test_what_is_seen_in_a_step_longer_than_a_row_belongs_to_it(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for _ in range(20):
        run.tick(1)
        for _ in range(11):  # for 2.75 s rank 0 writes and no step ends
            run.ticks += 1
            run.series.add({0: run.look(0, True, True, 0, ended=False)}, run.ticks * TICK_S)

    (times, *_) = run.read()

    (log,) = [v for a, v in times.spent.items() if a.phase is Phase.LOG]
    assert (log.sum() / times.step_s.sum()) > 0.9


def test_before_steps_were_counted_collectives_tell_them(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.tick(80, counted=False)
    run.tick(80)

    (times, _) = run.read()

    assert int(times.last_step[0]) < 100
    assert times.step_s == pytest.approx([0.05] * len(times.step_s), rel=0.05)


def test_a_job_of_days_fits_into_little_and_keeps_its_shape(tmp_path: Path) -> None:
    run = Run(tmp_path, max_bytes=40_000)
    largest = 0
    for writes in (0.25, 0.25, 0.75, 0.75):
        for _ in range(25):
            run.tick(200, writes=writes)
            largest = max(largest, (tmp_path / SERIES_PATH).stat().st_size)

    (times, _) = run.read()

    assert largest < 50_000
    assert times.steps.sum() == pytest.approx(4 * 25 * 200 * 5, rel=0.02)
    (log,) = [v for a, v in times.spent.items() if a.phase is Phase.LOG]
    half = len(log) // 2
    assert log[half:].mean() == pytest.approx(3 * log[:half].mean(), rel=0.2)


def test_of_more_ranks_than_a_machine_has_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_series, "MAX_RANKS", 1)
    run = Run(tmp_path)
    run.tick(50)
    run.series.close()

    assert not (tmp_path / SERIES_PATH).exists()


def test_a_watcher_started_again_goes_on_where_the_other_stopped(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.tick(100)
    run.series.close()
    run.series = RankSeries(tmp_path)
    run.tick(100)

    (times, _) = run.read()

    heads = [line for line in (tmp_path / SERIES_PATH).read_text().splitlines() if "schema" in line]
    assert len(heads) == 1
    assert int(times.last_step[-1]) == 1000
    assert len({a for a in times.spent if a.phase is Phase.LOG}) == 1


def test_of_a_job_started_again_the_last_attempt_counts(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.tick(60)
    run.steps = 0
    run.tick(40, attempt=1)

    (times, _) = run.read()

    assert int(times.last_step[-1]) == 200
    assert (times.steps > 0).all()


def test_a_folder_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "series").write_text("a file where the folder would be")
    run = Run(tmp_path)

    run.tick(100)
    run.series.close()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.tick(50)
    run.series.close()

    assert (tmp_path / SERIES_PATH).stat().st_mode & 0o77 == 0


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(at=st.floats(0, 1), junk=st.binary(max_size=60))
def test_torn_and_foreign_lines_cost_only_themselves(tmp_path: Path, at: float, junk: bytes) -> None:
    run = Run(tmp_path / str(len(list(tmp_path.iterdir()))))
    run.folder.mkdir()
    run.tick(40)
    run.series.close()
    path = run.folder / SERIES_PATH
    data = path.read_bytes()
    cut = int(len(data) * at)
    path.write_bytes(data[:cut] + junk + data[cut:])

    found = read_rank_series(path, source=Source("x"))

    assert isinstance(found, Unread) or len(found) <= 2


@pytest.mark.parametrize(
    "row",
    [
        {"rank": -1, "steps": 1},
        {"rank": 0, "steps": 5, "took_s": 1e300, "looks": 1},
        {"rank": 0, "steps": 5, "took_s": 1, "looks": -4},
        {"rank": 0, "steps": 5, "took_s": 1, "looks": 4, "doing": [[1, "compute", False, -3]]},
        {"rank": "0"},
    ],
)
def test_a_row_that_cannot_be_right_is_left_out_and_counted(tmp_path: Path, row: dict[str, object]) -> None:
    path = tmp_path / "ranks.jsonl"
    good = {"rank": 1, "step": 9, "steps": 3, "took_s": 1.5, "looks": 4, "doing": [[0, "compute", False, 4]]}
    lines = [{"schema": "unhang.series/1", "width_s": 1}, row, good]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    (times,) = read_rank_series(path, source=Source("x"))  # type: ignore[misc]

    assert times.step_s.tolist() == [0.5]
    assert "1 of its lines" in times.unread[0].reason


def test_a_rank_seen_before_its_first_beat_has_no_row_as_long_as_the_machine_is_up(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.ticks = 400_000
    unborn = run.look(0, works=True, counted=False, attempt=0)
    unborn.view.beat_ns = -1
    run.series.add({0: unborn}, run.ticks * TICK_S)
    run.tick(20)
    run.series.close()

    rows = [json.loads(line) for line in (tmp_path / SERIES_PATH).read_text().splitlines()]
    assert max(row["for_s"] for row in rows if "rank" in row) < 10
