"""Who printed a line: labels that no table knows, and what makes a label a rank."""

from __future__ import annotations

import io

import pytest

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log
from unhang.evidence.logs.content.stacks_in_logs import LogStackReader

RAISES = (
    "Traceback (most recent call last):",
    '  File "/srv/train.py", line 88, in <module>',
    "    main()",
    "IndexError: list index out of range",
)


def read(lines: list[str]) -> LogReading:
    return read_log(io.BytesIO("\n".join(lines).encode() + b"\n"), source="job.log")


def job(labels: list[str], *, first: list[str] | None = None, raises: int = 1) -> list[str]:
    """A log of as many processes as there are labels, all of which print at once; one of them raises."""
    said = [f"{label}{text}" for label, text in zip(labels, first or [], strict=False)]
    said += [f"{label}loading shard {count}" for count in range(3) for label in labels]
    for line in RAISES:
        said += [f"{labels[raises]}{line}", f"{labels[0]}still here"]
    return said


NUMBERED = [
    pytest.param(["(0) ", "(1) "], id="parentheses"),
    pytest.param(["[0] ", "[1] "], id="mpiexec -prepend-rank"),
    pytest.param(["[0]: ", "[1]: "], id="brackets and colon"),
    pytest.param(["0: ", "1: "], id="srun --label"),
    pytest.param(["[1,0]<stderr>:", "[1,1]<stderr>:"], id="Open MPI"),
    pytest.param(["Tue Nov 27 13:49:06 2018[1,0]<stderr>:", "Tue Nov 27 13:49:07 2018[1,1]<stderr>:"], id="with times"),
    pytest.param(["[prterun-n1-44@1,0]<stderr>: ", "[prterun-n1-44@1,1]<stderr>: "], id="PRRTE"),
    pytest.param(["[0]<stdout>:", "[1]<stdout>:"], id="Horovod"),
    pytest.param(["[Rank 0] ", "[Rank 1] "], id="rank in brackets"),
    pytest.param(["[PID:8123] [RANK:0] ", "[PID:8124] [RANK:1] "], id="process and rank"),
    pytest.param(["rank=0 | ", "rank=1 | "], id="rank and bar"),
    pytest.param(["<global_rank 0> ", "<global_rank 1> "], id="angle brackets"),
]


@pytest.mark.parametrize("labels", NUMBERED)
def test_a_traceback_belongs_to_the_label_before_its_lines(labels: list[str]) -> None:
    (traceback,) = read(job(labels)).tracebacks
    assert (traceback.exception, traceback.rank, len(traceback.frames)) == ("IndexError", 1, 1)


TIED = [
    pytest.param(["p61044 | ", "p61045 | "], ["RANK=1 up", "RANK=0 up"], id="a line of its own"),
    pytest.param(["{w0} ", "{w1} "], ["joined as rank 1", "joined as rank 0"], id="a worker's number"),
    pytest.param(["(Actor pid=55) ", "(Actor pid=56) "], ["rank: 1", "rank: 0"], id="Ray"),
    pytest.param(["p61044 | ", "p61045 | "], ["Rank 1 Group 0 Pid 61044", "Rank 0 Group 0 Pid 61045"], id="a table"),
]


@pytest.mark.parametrize(("labels", "first"), TIED)
def test_a_name_is_the_rank_that_its_own_lines_name(labels: list[str], first: list[str]) -> None:
    (traceback,) = read(job(labels, first=first, raises=0)).tracebacks
    assert traceback.rank == 1


NAMELESS = [
    pytest.param(["p61044 | ", "p61045 | "], [], id="nothing says whose"),
    pytest.param(["(0) ", "(1) "], [f"sync: rank={rank}" for rank in (0, 1)], id="more ranks than labels"),
    pytest.param(["{n0} ", "{n1} "], ["joined as rank 0", "joined as rank 8"], id="a node's first rank"),
    pytest.param(["{n0} ", "{n1} "], ["waiting for rank 0", "waiting for rank 0"], id="somebody else's"),
]


@pytest.mark.parametrize(("labels", "first"), NAMELESS)
def test_a_label_stays_nameless_where_nothing_ties_it_to_a_rank(labels: list[str], first: list[str]) -> None:
    lines = [*job(labels, first=first), "barrier timeout: rank=2", "barrier timeout: rank=3"]
    (traceback,) = read(lines).tracebacks
    assert (traceback.rank, len(traceback.frames)) == (None, 1)


def test_labels_of_nodes_are_no_task_numbers_either() -> None:
    lines = job(["(0) ", "(1) "]) + [f"sync timeout: rank={rank}" for rank in range(4)]
    (killed,) = read([*lines, "srun: error: n06: task 1: Killed"]).exits
    assert killed.rank is None
    (killed,) = read([*job(["0: ", "1: "]), "srun: error: n06: task 1: Killed"]).exits
    assert killed.rank == 1


def test_names_that_count_the_ranks_are_the_ranks() -> None:
    epochs = [f"Part {part} | Epoch 00000 | Loss 3.1" for _ in range(4) for part in (2, 0, 1)]
    reading = read([*(f"rank: {rank}" for rank in (1, 0, 2)), *epochs])
    assert {said.rank for said in reading.last_lines} == {0, 1, 2}


def test_a_counter_before_every_line_is_no_speaker() -> None:
    steps = [f"step {number}: loss 2.1" for number in range(20)]
    twice = [f"Epoch {number}: 50%|x| 1/2 [00:01<00:01, 1it/s]" for number in (0, 1, 0, 1, 2, 2, 3, 3)]
    for lines in (steps, twice):
        reading = read(lines)
        assert reading.ranks == ()
        assert reading.progress


STACKS = (
    "Timeout (0:02:00)!",
    "Thread 0x00007f0a4e7fe640 (most recent call first):",
    '  File "/srv/train.py", line 31 in {function}',
    '  File "/srv/train.py", line 44 in main',
)


@pytest.mark.parametrize("labels", NUMBERED[:2] + NUMBERED[-3:])
def test_stacks_that_ranks_print_at_once_stay_apart(labels: list[str]) -> None:
    lines = [f"{label}loading shard {count}" for count in range(3) for label in labels]
    first = len(lines) + 3
    for line in STACKS:
        lines += [labels[0] + line.format(function="save"), labels[1] + line.format(function="all_reduce")]
    listener = LogStackReader()
    read_log(io.BytesIO("\n".join(lines).encode()), source="job.log", listener=listener)
    told = [
        (dump.rank, dump.threads[0].line, dump.threads[0].frames[0].function)
        for dump in listener.stacks("job.log", None)
    ]
    assert sorted(told) == [(0, first, "save"), (1, first + 1, "all_reduce")]
