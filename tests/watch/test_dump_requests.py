"""Dumps for a search pass; those that prove a verdict, and a rank's last word, stay."""

from __future__ import annotations

import os
from pathlib import Path

from unhang.watch.dump_requests import dump_times, remove_unchanged
from unhang.watch.moving_job import MIN_COLLECTIVES, StepPeriodSearch


def searching(folder: Path) -> StepPeriodSearch:
    """A search whose time has come."""
    (folder / "dumps").mkdir()
    search = StepPeriodSearch(folder / "records", folder / "dumps")
    search.began_s = search.next_s = 1e-9
    return search


def test_no_search_while_evidence_lies_there(tmp_path: Path) -> None:
    search = searching(tmp_path)
    (tmp_path / "dumps" / "rank_0").write_bytes(b"of a look")

    search.tick(MIN_COLLECTIVES)

    assert (search.child, search.tries) == (None, 0)
    assert (tmp_path / "dumps" / "rank_0").exists()


def test_it_begins_once_there_is_none(tmp_path: Path) -> None:
    search = searching(tmp_path)

    search.tick(MIN_COLLECTIVES)
    search.end()

    assert search.tries == 1


def test_what_was_written_since_it_was_read_stays(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank_{rank}").write_bytes(b"asked for")
    read = dump_times(tmp_path)
    (tmp_path / "rank_1").write_bytes(b"its last word")
    os.utime(tmp_path / "rank_1", ns=(1, 1))

    remove_unchanged(read)

    assert [path.name for path in tmp_path.iterdir()] == ["rank_1"]


def test_what_a_rank_left_as_it_fell_stays_although_it_was_read(tmp_path: Path) -> None:
    """It fell while the others answered: its dump lay among theirs when they were read."""
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (tmp_path / "crash").mkdir()
    for rank in (0, 1):
        (dumps / f"rank_{rank}").write_text("a dump")
    (tmp_path / "crash" / "rank_1.except").write_text("{}")

    remove_unchanged(dump_times(dumps))

    assert [path.name for path in dumps.iterdir()] == ["rank_1"]
