"""Receives without a send are told from a matter of order: by what stands above the line of who went on."""

from __future__ import annotations

import textwrap

import pytest

from tests.facts.jobs import call, recording
from unhang.causes.collectives.deadlock_order import detect as check_order
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import SourceFile, StackDump
from unhang.evidence.stacks import read_stacks
from unhang.facts.build import build_facts
from unhang.facts.divergence.skipped_calls import unmatched_p2p
from unhang.facts.model import Facts
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest, RankProcess

C10D = "torch/distributed/distributed_c10d.py:2500"


def stack(rank: int, operation: str, *lines: tuple[str, int]) -> StackDump:
    pid = 100 + rank
    frames = "".join(f"    {function} (/job/train.py:{line})\n" for function, line in lines)
    text = f"Process {pid}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
    text += f'Thread {pid} (idle): "MainThread"\n    {operation} ({C10D})\n{frames}'
    (dump,) = read_stacks(text.encode(), source=f"stacks/rank_{rank}.txt", rank=rank)
    return dump


def facts(text: str, first: str, second: str, *, recorded: bool = False) -> Facts:
    """Rank 0 stands at the mark ``# ZERO`` in ``first``, rank 1 at ``# ONE`` in ``second``, which is ``recorded``."""
    program = textwrap.dedent(text).lstrip("\n")
    zero, one = (
        next(n for n, row in enumerate(program.splitlines(), 1) if mark in row) for mark in ("# ZERO", "# ONE")
    )
    manifest = BundleManifest(
        source=Source("bundle.json"),
        world_size=2,
        processes=tuple(RankProcess(r, pid=100 + r, moving=False) for r in (0, 1)),
    )
    source = SourceFile(Source("train.py"), "/job/train.py", program)
    stacks = [stack(0, first, ("run", zero)), stack(1, second, ("run", one))]
    evidence = EvidenceSet(stacks=stacks, manifests=[manifest], sources=[source])
    if recorded:
        world = {"0": (0, 1)}
        of_one = [call(40, backend="gloo"), call(41, second, state="scheduled", line=one, backend="gloo")]
        of_one[-1]["frames"][-1]["name"] = "run"
        evidence.recorder_dumps += [
            recording(0, [call(40, backend="gloo")], groups=world),
            recording(1, of_one, groups=world),
        ]
    return build_facts(evidence)


PIPELINE = """
def run(rank):
    for batch in range(count):
        if rank == 0:
            dist.send(x, {to})
        else:
            dist.recv(x, {source})  # ONE
    for batch in range(count):
        if rank == 0:
            dist.recv(x, {to})  # ZERO
        else:
            dist.send(x, {source})
"""
ONE_LINE_MORE = """
def run(rank):
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
        dist.recv(x, 0)  # ONE
    dist.barrier()  # ZERO
"""
CLASSIC = """
def run(rank):
    if rank == 0:
        dist.recv(x, 1)  # ZERO
        dist.send(x, 1)
    else:
        dist.recv(x, 0)  # ONE
        dist.send(x, 0)
"""


@pytest.mark.parametrize(("to", "source"), [("1", "0"), ("peer(rank)", "peer(rank)")], ids=["named", "unnamed"])
def test_past_its_sends_it_is_no_matter_of_order(to: str, source: str) -> None:
    known = facts(PIPELINE.format(to=to, source=source), "recv", "recv")

    (found,) = unmatched_p2p(known)
    assert (found.gone, found.waiting, found.in_a_loop) == ((0,), (1,), True)
    assert list(check_order(known)) == []


def test_in_a_collective_it_has_gone_on() -> None:
    known = facts(ONE_LINE_MORE, "barrier", "recv")

    (found,) = unmatched_p2p(known)
    assert (found.gone, found.operation, found.waiting, found.in_a_loop) == ((0,), "barrier", (1,), False)


def test_both_before_their_sends_is_a_matter_of_order() -> None:
    known = facts(CLASSIC, "recv", "recv")

    assert list(unmatched_p2p(known)) == []
    assert len(list(check_order(known))) == 1


ACTOR = """
def run(rank):
    if rank == 0:
        for turn in range(count):
            dist.recv(x, {source})  # ZERO
            dist.send(x, {source})
    else:
        for turn in range(count):
            if x.sum() > 0:
                dist.send(x, 0)
            dist.recv(x, 0)  # ONE
"""


def test_a_send_under_a_test_on_data_is_no_matter_of_rounds() -> None:
    (found,) = unmatched_p2p(facts(ACTOR.format(source=1), "recv", "recv"))

    assert (found.gone, found.waiting, found.in_a_loop, found.past_test) == ((1,), (0,), False, "x.sum() > 0")


SCHEDULE = """
def run(rank):
    for batch in range(count):
        if rank == 0:
            schedule.step(x)  # ZERO
        elif good(batch):
            schedule.step()
        dist.broadcast(loss, 1)  # ONE
"""


def test_those_awaited_in_a_collective_may_wait_in_sends_and_receives_of_its_round() -> None:
    known = facts(SCHEDULE, "batch_isend_irecv", "broadcast", recorded=True)

    (found,) = unmatched_p2p(known)
    assert (found.gone, found.operation, found.waiting, found.in_a_loop) == ((1,), "broadcast", (0,), False)
