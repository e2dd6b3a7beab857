"""Remedies speak of what is really there."""

from __future__ import annotations

import pytest

from unhang.causes.detector import Signal
from unhang.causes.work.single_rank_work import detect
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import SourceFile, StackDump
from unhang.evidence.stacks import read_stacks
from unhang.facts.build import build_facts
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest, RankProcess

PROGRAM = "import ray\n\n\ndef main(actor, batch):\n    result = ray.get(actor.score.remote(x))\n    dist.barrier()\n"


def stack(rank: int, *frames: str) -> StackDump:
    pid = 100 + rank
    text = f"Process {pid}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
    text += f'Thread {pid} (idle): "MainThread"\n' + "".join(f"    {frame}\n" for frame in frames)
    (dump,) = read_stacks(text.encode(), source=f"stacks/rank_{rank}.txt", rank=rank)
    return dump


def remedies(*laggard: str) -> list[str]:
    """Titles of the remedies for rank 0, which stands so, while rank 1 waits for it in a barrier."""
    waits = ("barrier (torch/distributed/distributed_c10d.py:3042)", "main (/job/train.py:6)")
    manifest = BundleManifest(
        source=Source("bundle.json"),
        world_size=2,
        processes=tuple(RankProcess(r, pid=100 + r, moving=False) for r in (0, 1)),
    )
    source = SourceFile(Source("train.py"), "/job/train.py", PROGRAM)
    stacks = [stack(0, *laggard, "main (/job/train.py:5)"), stack(1, *waits)]
    (found,) = detect(build_facts(EvidenceSet(stacks=stacks, manifests=[manifest], sources=[source])))
    assert isinstance(found, Signal)
    return [str(one.title) for one in found.parts["remedies"]]


@pytest.mark.parametrize(
    ("frame", "title"),
    [
        ("get (ray/_private/worker.py:2772)", "Find out what `ray.get(actor.score.remote(x))` waits for"),
        ("interaction (pdb.py:366)", "Remove the breakpoint or input() at train.py:5"),
        ("acquire (filelock/_api.py:332)", "Find the process that holds the lock"),
        ("urlopen (urllib/request.py:216)", "Set a timeout for the request at train.py:5"),
    ],
)
def test_a_wait_for_something_outside_has_its_own_remedy_alone(frame: str, title: str) -> None:
    assert remedies(frame) == [title]


@pytest.mark.parametrize(
    ("frame", "has_a_result"), [("map (datasets/arrow_dataset.py:3000)", True), ("sleep (time.py:1)", False)]
)
def test_a_cached_result_is_loaded_only_where_there_is_one(frame: str, has_a_result: bool) -> None:
    assert ("Do the work at train.py:5 before the job, or on every rank" in remedies(frame)) is has_a_result
