"""How far each rank has come, from what watchdogs print."""

from __future__ import annotations

import io

from tests.facts.jobs import call, recording
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import RecorderDump
from unhang.evidence.logs import read_log
from unhang.facts.build import build_facts
from unhang.facts.model import Facts

TIMEOUT = (
    "[rank{rank}]:[E1009 08:53:20.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum={position}, OpType={operation}, NumelIn={elements}, NumelOut={elements},"
    " Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)
STATUS = (
    "[rank{rank}]:[E1009 08:53:21.000000000 ProcessGroupNCCL.cpp:1664] [PG 0 Rank {rank}] Exception (either an error or"
    " timeout) detected by watchdog at work: {position}, last enqueued NCCL work: {enqueued}, last completed NCCL work:"
    " {completed}.\n"
)


def facts(text: str, *dumps: RecorderDump) -> Facts:
    return build_facts(
        EvidenceSet(logs=[read_log(io.BytesIO(text.encode()), source="job.log")], recorder_dumps=list(dumps))
    )


def timeout(rank: int, position: int = 41, operation: str = "ALLREDUCE", elements: int = 12) -> str:
    return TIMEOUT.format(rank=rank, position=position, operation=operation, elements=elements)


def test_a_timeout_names_position_operation_and_size() -> None:
    progress = facts(timeout(0) + timeout(1)).groups["0"].progress[1]

    assert progress.source_kind == "log"
    assert (progress.enqueued, progress.completed) == (41, 40)
    call_ = progress.pending
    assert call_ is not None
    assert (call_.position, call_.operation, call_.elements, call_.timeout_ms) == (41, "all_reduce", 12, 600_000)


def test_the_status_beside_it_says_how_far_the_rank_had_come() -> None:
    text = timeout(0) + STATUS.format(rank=0, position=41, enqueued=44, completed=40)
    progress = facts(text).groups["0"].progress[0]

    assert (progress.enqueued, progress.completed) == (44, 40)


def test_a_rank_with_a_dump_is_not_told_by_its_log() -> None:
    dump = recording(0, [call(7, state="scheduled")], groups={"0": (0, 1)})

    progress = facts(timeout(0, 41), dump).groups["0"].progress[0]

    assert (progress.enqueued, progress.source_kind) == (7, "status")


def test_the_rank_that_timed_out_at_an_earlier_position_is_the_laggard() -> None:
    known = facts(timeout(0, 41) + timeout(1, 41) + timeout(2, 40))

    assert known.graph.roots == (2,)


def test_another_size_at_the_same_position_is_a_disagreement() -> None:
    (one,) = facts(timeout(0) + timeout(1) + timeout(2, elements=13)).mismatches

    assert (one.position, one.outliers, one.differs_in) == (41, (2,), ("size",))


def test_a_few_pasted_timeouts_are_not_everybody() -> None:
    assert facts(timeout(0) + timeout(1)).all_joined_stalls == ()


def test_the_order_of_lines_of_different_ranks_does_not_matter() -> None:
    lines = [timeout(0, 41), timeout(1, 41), timeout(2, 40)]

    assert facts("".join(lines)).graph == facts("".join(reversed(lines))).graph
