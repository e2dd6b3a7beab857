"""Dumps of a job that moves are compared: what differs and was survived is told, what may differ or is open is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.case_writer import Job
from unhang.facts.alignment.nonfatal_mismatch import nonfatal_from_comparisons
from unhang.facts.model import CallMismatch
from unhang.findings import Source, Unread
from unhang.watch.pace.call_drift import (
    DIGESTS_FILE,
    MAX_PAUSE_S,
    CallDriftWatch,
    comparison_document,
    find_disagreements,
    pause_after,
)
from unhang.wire.documents.call_comparison import read_call_comparisons

PROGRAM = """
import torch.distributed as dist


def main():
    dist.all_reduce(loss)
    dist.broadcast(rows, 0)


main()
"""
AT, SHARE = "dist.all_reduce(loss)", "dist.broadcast(rows, 0)"


def compared(job: Job, folder: Path) -> tuple[CallMismatch, ...]:
    job.dump(*range(job.ranks), name="rank_{rank}")
    for name, content in job.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return find_disagreements(folder / "dumps")


def job_of(ranks: int = 3, backend: str = "gloo") -> Job:
    job = Job(PROGRAM, ranks, backend=backend)
    job.history(range(ranks), 20, AT, first=1)
    return job


def test_ranks_that_call_the_same_agree(tmp_path: Path) -> None:
    assert compared(job_of(), tmp_path) == ()


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_a_broadcast_of_another_size_in_the_past(backend: str, tmp_path: Path) -> None:
    job = job_of(backend=backend)
    job.call((0, 1), 21, "broadcast", SHARE, size=(160,))
    job.call((2,), 21, "broadcast", SHARE, size=(100,))
    job.history(range(3), 900, AT, first=22)

    (found,) = compared(job, tmp_path)

    assert (found.position, found.differs_in, found.outliers, found.times) == (21, ("size",), (2,), 1)
    assert found.pending[2].where is not None
    assert found.pending[2].where.line == 6


def test_what_written_down_reads_back_to_the_same(tmp_path: Path) -> None:
    job = job_of()
    job.call((0, 1), 21, "broadcast", SHARE, size=(160,))
    job.call((2,), 21, "broadcast", SHARE, size=(100,))
    job.history(range(3), 30, AT, first=22)
    found = compared(job, tmp_path)

    read = read_call_comparisons(comparison_document(found), source=Source("compared.json"))

    assert not isinstance(read, Unread)
    (back,) = nonfatal_from_comparisons(list(read))
    for name in ("group", "position", "calls", "differs_in", "outliers", "records_align", "times"):
        assert getattr(back, name) == getattr(found[0], name)
    assert {rank: call.where for rank, call in back.pending.items()} == {
        r: c.where for r, c in found[0].pending.items()
    }


def test_a_call_that_is_not_finished_is_not_survived(tmp_path: Path) -> None:
    job = job_of(backend="nccl")
    job.call((0, 1), 21, "broadcast", SHARE, size=(160,), open=True)
    job.call((2,), 21, "broadcast", SHARE, size=(100,), open=True)
    job.history(range(3), 25, AT, first=22)

    assert compared(job, tmp_path) == ()


def test_the_last_call_of_all_may_still_be_open_on_gloo(tmp_path: Path) -> None:
    job = job_of()
    job.call((0, 1), 21, "broadcast", SHARE, size=(160,))
    job.call((2,), 21, "broadcast", SHARE, size=(100,))

    assert compared(job, tmp_path) == ()


def test_uneven_all_to_all_fits(tmp_path: Path) -> None:
    job = job_of()
    for rank in range(3):
        job.call((rank,), 21, "all_to_all", AT, size=(rank + 1,))
    job.history(range(3), 30, AT, first=22)

    assert compared(job, tmp_path) == ()


def test_groups_of_the_same_name_made_one_after_the_other_are_not_compared_with_each_other(tmp_path: Path) -> None:
    job = Job(PROGRAM, 2, backend="gloo")
    job.history((0, 1), 9, SHARE, first=1, size=(160,), operation="broadcast")
    job.history((0,), 12, AT, first=1)
    job.history((1,), 9, AT, first=1)

    assert compared(job, tmp_path) == ()


def test_parts_of_a_coalesced_call_share_a_position(tmp_path: Path) -> None:
    job = job_of(2)
    for size in (3, 5):
        job.call((0, 1), 21, "all_reduce", AT, size=(size,))
    job.history((0, 1), 25, AT, first=22)

    assert compared(job, tmp_path) == ()


def test_one_rank_alone_or_a_torn_dump_compares_with_nobody(tmp_path: Path) -> None:
    assert compared(job_of(1), tmp_path) == ()
    (tmp_path / "dumps" / "rank_1").write_bytes(b"\x80\x02}q")
    assert find_disagreements(tmp_path / "dumps") == ()


def test_comparing_grows_rare(tmp_path: Path) -> None:
    pauses = [pause_after(checks) for checks in range(12)]

    assert pauses == sorted(pauses)
    assert pauses[0] == 15
    assert pauses[-1] == MAX_PAUSE_S == 3600


def test_before_the_job_has_a_rhythm_nobody_is_asked(tmp_path: Path) -> None:
    watch = CallDriftWatch(tmp_path, tmp_path)

    assert [watch.tick(9) for _ in range(3)] == [None] * 3
    assert watch.checks == 0


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b'{"schema": "unhang.compared/1", "groups": [{"group": "0", "position": 1, "times": 1, "calls": []}]}',
        b'{"schema": "unhang.compared/2"}',
    ],
)
def test_a_comparison_that_cannot_be_right_is_unread(bad: bytes) -> None:
    assert isinstance(read_call_comparisons(bad, source=Source("compared.json")), Unread)


def test_the_rank_that_all_wait_for_is_told_from_the_second_comparison_on(tmp_path: Path) -> None:
    watch = CallDriftWatch(tmp_path, tmp_path)
    told = tmp_path / ".unhang" / DIGESTS_FILE
    told.parent.mkdir()
    late = []
    for checks in (1, 2, 3):
        told.write_text(json.dumps({"calls": [], "late": 2 if checks < 3 else None}), encoding="utf-8")
        watch.checks, watch.child = checks, Over()  # type: ignore[assignment]
        watch.tick(0)
        late.append(watch.late)

    assert late == [None, 2, None]


class Over:
    """A child that has ended well."""

    failed = False

    def over(self) -> bool:
        return True
