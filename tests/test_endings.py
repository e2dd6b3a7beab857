"""Runs that end: those that ended well are not called stuck, and what hangs or was torn off is never called healthy."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from benchmarks.endings import ENDINGS, answered, is_missed, read_set, torn, troubled
from benchmarks.first_sight import HEALTHY, digest


def missed(name: str, logs: Iterable[Path]) -> list[str]:
    return [str(log) for log in logs if is_missed(name, answered(log))]


def test_of_40_runs_that_ended_well_39_have_no_problem() -> None:
    assert len(missed("well", read_set("well"))) <= 1


def test_a_rank_that_announces_its_end_while_another_hangs_is_no_proof() -> None:
    assert missed("ends", read_set("ends")) == []


def test_no_log_of_a_stall_or_crash_is_healthy_when_it_is_torn(tmp_path: Path) -> None:
    batches = [log for log in troubled() if "batches" in log.parts]

    assert missed("torn", (torn(log, 2 / 3, tmp_path / str(i)) for i, log in enumerate(batches))) == []


def test_what_was_said_at_first_sight_is_of_the_logs_as_they_stand() -> None:
    row = json.loads((ENDINGS / "first_sight.jsonl").read_text(encoding="utf-8"))
    well, ends = ([told for case, told in row["answers"].items() if case[0] == kind] for kind in "we")

    assert row["sha256"] == {name: digest(ENDINGS / name) for name in ("well", "ends")}
    assert row["well_or_no_problem"] == [sum(not is_missed("well", told) for told in well), len(well)]
    assert row["well_called_healthy"] == [well.count(HEALTHY), len(well)]
    assert row["ends_called_healthy"] == [ends.count(HEALTHY), len(ends)]
