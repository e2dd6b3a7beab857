"""What nodes tell of their calls is the same where the calls are, and shows where they are not."""

from __future__ import annotations

from pathlib import Path

from tests.case_writer import Job
from unhang.watch.pace.call_drift import MAX_STRETCHES, STRETCH, CallDigest, differing_nodes, digest_calls, groups_in

PROGRAM = """
import torch.distributed as dist


def main():
    dist.all_reduce(loss)


main()
"""
AT = "dist.all_reduce(loss)"


def prints(place: Path, rank: int, *, odd: int | None = None, first: int = 1, last: int = 400) -> list[CallDigest]:
    """Of a node with one rank; ``odd``: a position at which it calls with another dtype."""
    job = Job(PROGRAM, 4, backend="gloo")
    job.history((rank,), last if odd is None else odd - 1, AT, first=first)
    if odd is not None:
        job.call((rank,), odd, "all_reduce", AT, dtype="int")
        job.history((rank,), last, AT, first=odd + 1)
    job.dump(rank, name="rank_{rank}")
    for name, content in job.files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return digest_calls(groups_in([place / "dumps"])[0])


def test_nodes_that_call_the_same_agree_however_far_each_has_recorded(tmp_path: Path) -> None:
    here, there = prints(tmp_path / "a", 0), prints(tmp_path / "b", 3, first=90, last=470)

    assert here
    assert {one[1] for one in here} & {one[1] for one in there}
    assert differing_nodes({None: here, 1: there}) == []


def test_the_nodes_that_differ_are_named(tmp_path: Path) -> None:
    here, same, other = prints(tmp_path / "a", 0), prints(tmp_path / "b", 1), prints(tmp_path / "c", 2, odd=200)

    assert differing_nodes({None: here, 1: same, 2: other}) == [None, 2]
    assert differing_nodes({1: other, 2: same}) == [1, 2]
    assert sum(a != b for a, b in zip(here, other, strict=True)) == 1


def test_it_stays_small(tmp_path: Path) -> None:
    assert len(prints(tmp_path, 0, last=STRETCH * MAX_STRETCHES * 2)) == MAX_STRETCHES
    assert digest_calls({}) == []
