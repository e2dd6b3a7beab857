"""What a run leaves when it is over: the same verdict wherever its output went, what it cites, and proof of health."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.watch.output_ways import WAYS, Run, run_program
from unhang.findings import Certainty, Status

pytestmark = [pytest.mark.job, pytest.mark.timeout(250)]
PROGRAM = Path(__file__).with_name("ending_job.py")


def ended(shape: str, tmp_path: Path, *, way: str = "pipe", ranks: int = 2, options: tuple[str, ...] = ()) -> Run:
    return run_program(PROGRAM, [shape], tmp_path / "run", way=way, ranks=ranks, options=options)


def assert_as_printed_and_read_back(run: Run, cause: str) -> None:
    """The last line but one of the history names what the file holds, what the file cites is there, and the folder says
    the same."""
    assert run.told is not None, run.printed
    first = run.told["findings"][0]
    assert first["cause"] == cause, run.printed
    last = [line for line in run.lines if "the history did not take this run" not in line][-1]
    assert f"found: {cause}; see {run.folder}" in last
    back = run.read_back()
    again = back.findings[0]
    where = [again.where.line] if again.where else []
    assert (again.cause.value, list(again.ranks), where) == (cause, first["ranks"], [first["where"]["line"]])
    assert again.certainty.order >= Certainty(first["certainty"]).order
    assert back.unread == ()


def line_of(code: str) -> int:
    """The line of the program that holds ``code``."""
    return next(n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if code in line)


def quick(ways: tuple[str, ...]) -> list[object]:
    """Those that ``make test`` runs too; on a loaded machine an abort may be told before its exit is known."""
    return [way if way in ways else pytest.param(way, marks=pytest.mark.live) for way in WAYS]


@pytest.mark.parametrize("way", quick(("file",)))
def test_an_exception_in_a_thread_has_its_rank_wherever_the_output_goes(way: str, tmp_path: Path) -> None:
    run = ended("thread", tmp_path, way=way)

    assert_as_printed_and_read_back(run, "rank-crashed")
    assert run.told is not None
    first = run.told["findings"][0]
    assert (first["ranks"], first["certainty"], first["where"]["line"]) == ([1], "certain", line_of("LABELS[step"))
    assert run.code != 0


@pytest.mark.parametrize("way", quick(()))
def test_a_rank_that_aborts_is_a_crash_wherever_the_output_goes(way: str, tmp_path: Path) -> None:
    run = ended("abort", tmp_path, way=way)

    assert_as_printed_and_read_back(run, "rank-crashed")
    assert run.told is not None
    first = run.told["findings"][0]
    assert (run.told["status"], first["ranks"], first["where"]["line"]) == ("crash", [1], line_of("os.abort()"))


def test_a_run_that_ends_well_leaves_its_proof(tmp_path: Path) -> None:
    run = ended("well", tmp_path)

    assert run.code == 0
    assert [line.partition(";")[0] for line in run.lines] == ["unhang: no problem found"]
    assert run.told is not None
    assert (run.told["status"], run.told["findings"]) == ("healthy", [])
    assert any("exit code 0" in one["what"] for one in run.told["checked"])
    assert run.read_back().status is Status.HEALTHY


def test_who_has_not_come_to_a_small_group_yet_is_waited_for(tmp_path: Path) -> None:
    run = ended("late", tmp_path, ranks=3)

    assert "all 2 ranks" not in run.printed
    assert "no problem found" in run.lines[-1]
    assert run.told is not None
    assert run.told["status"] == "healthy"


@pytest.mark.live
@pytest.mark.parametrize(("shape", "where"), [("asks", "ask_server"), ("counts", "count_tokens")])
def test_a_rank_that_comes_by_itself_gets_a_line_and_no_verdict(shape: str, where: str, tmp_path: Path) -> None:
    run = ended(shape, tmp_path)

    assert any("rank 1 has been waiting for rank 0 for " in line for line in run.lines), run.printed
    assert f"it is in {where}, ending_job.py:" in run.printed or shape == "counts"  # then its record is silent
    assert "HANG" not in run.printed
    assert "SLOW" not in run.printed
    assert "no problem found" in run.lines[-1]
    assert not (run.folder / ".unhang" / "past").exists()
    assert run.told is not None
    assert run.told["status"] == "healthy"


def test_what_has_stood_longer_than_any_step_is_a_hang_and_history_once_it_goes_on(tmp_path: Path) -> None:
    run = ended("asks", tmp_path, options=("--slow-after", "3"))

    assert "HANG  Rank 0 is sleeping" in run.printed
    assert "SLOW  " not in run.printed
    assert f"resolved by itself: single-rank-work; see {run.folder}/.unhang/past" in run.lines[-1]
    assert run.told is not None
    assert run.told["status"] == "healthy"
