"""Runs that are over, as four real ones of four ranks left their folders: stalled and then stopped with Ctrl-C,
crashed, stopped with Ctrl-C while they trained, and finished."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.view.runs import CRASHED, FINISHED, INTERRUPTED, STALLED
from unhang.report.localizer import Localizer
from unhang.view import sentences
from unhang.view.last_moment import read_with_its_end
from unhang.view.reading import RunReading
from unhang.wire.documents.live_state import STATES, LiveState


def read(folder: Path) -> tuple[RunReading, LiveState]:
    reading = read_with_its_end(folder)
    assert reading.state is not None
    return reading, reading.state


def doing(state: LiveState) -> list[str]:
    return [STATES[number] for number in state.ranks.state]


def told(folder: Path, lang: str = "en") -> str:
    reading, state = read(folder)
    return sentences.condition(state, reading, Localizer(lang)).text


def test_a_stall_that_was_ended_with_ctrl_c_is_shown_as_it_stood() -> None:
    _, state = read(STALLED)

    assert doing(state) == ["waiting", "waiting", "idle", "waiting"]
    assert [state.places[place] for place in state.ranks.place] == [
        *["/home/ml/job/train.py:33"] * 2,
        "/home/ml/job/train.py:13",
        "/home/ml/job/train.py:33",
    ]
    assert told(STALLED) == (
        "Ranks 0, 1, 3 had waited 58 s for rank 2. SIGINT (Ctrl-C) ended the job. "
        "The ranks are shown as they were during the stall."
    )
    assert told(STALLED, "zh") == (
        "rank 0、1、3 等 rank 2 等了 58 秒。作业被 SIGINT（Ctrl-C）结束。各 rank 显示的是卡住时的状态。"
    )
    assert sentences.waiting_pair(state, Localizer()) == [
        ("ranks 0, 1, 3", "compute · /home/ml/job/train.py:33"),
        ("rank 2", "/home/ml/job/train.py:13"),
    ]


def test_of_a_crash_only_the_rank_that_crashed_ended_badly() -> None:
    _, state = read(CRASHED)

    assert [word == "dead" for word in doing(state)] == [False, True, False, False]
    assert told(CRASHED) == (
        "Rank 1 ended first, with ValueError. The launcher then ended ranks 0, 2, 3. "
        "The ranks are shown as they were when the first one ended."
    )
    assert sentences.waiting_pair(state, Localizer()) == []


def test_ctrl_c_in_a_job_that_trained_is_no_end_of_a_rank() -> None:
    _, state = read(INTERRUPTED)

    assert "dead" not in doing(state)
    assert told(INTERRUPTED).startswith("SIGINT (Ctrl-C) ended the job. ")


def test_a_run_that_finished_stays_as_it_is() -> None:
    _, state = read(FINISHED)

    assert doing(state) == ["over"] * 4
    assert told(FINISHED) == "All ranks ended normally."


@pytest.mark.parametrize("missing", ["series", "bundle.json"])
def test_what_was_not_kept_is_not_made_up(missing: str, tmp_path: Path) -> None:
    """Without a series ranks stay as their processes ended; without a manifest nobody had waited."""
    folder = Path(shutil.copytree(STALLED, tmp_path / "run"))
    if missing == "series":
        shutil.rmtree(folder / missing)
    else:
        (folder / missing).unlink()
    _, state = read(folder)

    assert state.standing is None
    assert (doing(state) == ["dead"] * 4) is (missing == "series")
    assert "had waited" not in told(folder)
    assert "SIGINT (Ctrl-C) ended the job." in told(folder)


def test_an_end_that_nobody_recorded_is_said_to_be_none(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(STALLED, tmp_path / "run"))
    shutil.rmtree(folder / ".unhang")

    assert "The run is over; how it ended was not recorded." in told(folder)


def test_a_pipe_in_place_of_the_exceptions_is_not_waited_for(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(CRASHED, tmp_path / "run"))
    (folder / "crash" / "rank_1.except").unlink()
    os.mkfifo(folder / "crash" / "rank_1.except")

    assert told(folder).startswith("Rank 1 ended first, with exit code 1.")


def test_a_run_that_goes_on_is_read_as_it_is(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(STALLED, tmp_path / "run"))
    state = json.loads((folder / "live.json").read_text())
    plan = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(plan | {"records": str(folder)}))
    (folder / "live.json").write_text(json.dumps(state | {"ended": False}))
    reading, live = read(folder)

    assert reading.live
    assert reading.ended == ()
    assert doing(live) == ["dead"] * 4


@pytest.mark.parametrize("time_s", ["x", None, -1, 1e300, float("inf"), True])
def test_exceptions_that_somebody_else_wrote_are_left_out_where_they_cannot_be(time_s: object, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(CRASHED, tmp_path / "run"))
    path = folder / "crash" / "rank_1.except"
    line = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps(line | {"time_s": time_s, "type": "Foreign"}) + "\n")

    assert "had waited" not in told(folder)
    assert "ended first" in told(folder)
