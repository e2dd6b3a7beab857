"""What single causes decide by a number: whole verdicts on a few lines."""

from __future__ import annotations

from tests.knowledge.boundaries.boundary import turns
from tests.knowledge.boundaries.logs import facts_of, said, timeout
from unhang.causes.detector import Signal
from unhang.causes.machine import gpu_hardware, p2p_broken
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.findings import Source


def found(facts: Facts) -> object:
    """What is found, how bad it is, and what it rests on."""
    return [(f.cause, f.severity, f.certainty, f.grade) for f in diagnose(facts).findings]


@turns("device_mapping.first_positions", 2, 3)
def a_guessed_device(position: int) -> object:
    guess = (
        "[rank1]:[W1009 11:00:00.000000000 ProcessGroupNCCL.cpp:4718] [PG ID 0 PG GUID 0 Rank 1]  using GPU 0 as "
        "device used by this process is currently unknown. This can potentially cause a hang if this rank to GPU "
        "mapping is incorrect."
    )
    return found(facts_of(guess, timeout(0, position), timeout(1, position)))


@turns("gpu_hardware.old_s")
def an_old_fault(before_s: float) -> object:
    fault = said(
        1, "NVRM: Xid (PCI:0000:01:00): 79, pid=4001, name=python, GPU has fallen off the bus.", -600 - before_s
    )
    facts = facts_of(fault, *(f"2026-10-09T12:00:00.000Z {timeout(rank)}" for rank in (0, 2)))
    return [answer.whole for answer in gpu_hardware.detect(facts) if isinstance(answer, Signal)]


def barrier(rank: int, position: int) -> str:
    """A wait in which one number is exchanged."""
    return timeout(rank, position).replace("NumelIn=12, NumelOut=12", "NumelIn=1, NumelOut=1")


@turns("work_in_lines.first_positions", 3, 4)
def everybody_but_rank_0_waits_in_a_barrier(position: int) -> object:
    steps = ("step 1 loss 2.0", "step 2 loss 1.9")
    return found(facts_of(*steps, *(barrier(rank, position) for rank in (1, 2, 3))))


@turns("work_in_lines.same_moment_s")
def spoke_of_saving(after_s: float) -> object:
    words = said(0, "Saving model checkpoint to /out/checkpoint-40", -600 - after_s)
    return found(facts_of(words, *(f"2026-10-09T12:00:00.000Z {timeout(rank, 400)}" for rank in (1, 2, 3))))


@turns("slow_data_loading.few", 2, 3)
def one_process_of_so_many_waits_for_data(processes: int) -> object:
    loads = (Frame("_try_get_data", "torch/utils/data/dataloader.py", 1243), Frame("main", "/job/train.py", 7))
    waits = (Frame("all_reduce", "torch/distributed/distributed_c10d.py", 3042), Frame("main", "/job/train.py", 9))
    stacks = [
        StackDump(Source("paste.txt", line=n), None, 4000 + n, (ThreadStack("MainThread", "1", frames),), "py-spy")
        for n, frames in enumerate([loads] * 5 + [waits] * 5 * (processes - 1))
    ]
    return found(build_facts(EvidenceSet(stacks=stacks)))


@turns("p2p_broken.first_positions", 20, 21)
def stalled_right_behind_the_set_up(position: int) -> object:
    return p2p_broken._nothing_else(facts_of(timeout(0, position), timeout(1, position)))
