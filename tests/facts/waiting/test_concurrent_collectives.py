"""Two threads of a rank in collectives: of one group it is the reason, in groups of their own it is none."""

from __future__ import annotations

import pytest

from tests.facts.jobs import call, recording
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import RecorderDump, SourceFile, StackDump
from unhang.evidence.stacks import read_stacks
from unhang.facts.build import build_facts
from unhang.facts.waiting.concurrent_collectives import ConcurrentCollectives, concurrent_collectives
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest, RankProcess

TRAIN = "/job/train.py"
INSIDE = "{} (torch/distributed/distributed_c10d.py:3042)"


def stack(rank: int, main: str = "all_reduce", other: str = "barrier") -> StackDump:
    pid = 100 + rank
    text = f"Process {pid}: python {TRAIN}\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
    text += f'Thread {pid} (idle): "MainThread"\n    {INSIDE.format(main)}\n    train ({TRAIN}:40)\n'
    if other:
        text += f'Thread {pid + 50} (idle): "saver"\n    {INSIDE.format(other)}\n    save ({TRAIN}:9)\n'
    (dump,) = read_stacks(text.encode(), source=f"stacks/rank_{rank}.txt", rank=rank)
    return dump


def found(
    stacks: list[StackDump], dumps: list[RecorderDump], *, moving: bool = False, state: str = "", source: str = ""
) -> ConcurrentCollectives | None:
    processes = tuple(RankProcess(r, pid=100 + r, moving=moving, state=state) for r in range(2))
    manifest = BundleManifest(source=Source("bundle.json"), world_size=2, processes=processes)
    evidence = EvidenceSet(recorder_dumps=dumps, stacks=stacks, manifests=[manifest])
    evidence.sources += [SourceFile(Source(TRAIN), TRAIN, source)] if source else []
    return concurrent_collectives(build_facts(evidence))


def of_groups(rank: int, first: tuple[str, str], second: tuple[str, str]) -> RecorderDump:
    """The last calls of a rank: (operation, group), in their order."""
    lines = {"all_reduce": 40, "barrier": 9}
    seen: dict[str, int] = {}
    calls = []
    for operation, group in (first, second):
        seen[group] = seen.get(group, 4) + 1
        calls.append(call(seen[group], operation, group=group, state="scheduled", line=lines[operation]))
    return recording(rank, calls, groups={"0": (0, 1), "1": (0, 1)})


REDUCE, SAVE = ("all_reduce", "0"), ("barrier", "0")
SAVE_APART = ("barrier", "1")


@pytest.mark.parametrize("first", [REDUCE, SAVE], ids=["other-order", "same-order"])
def test_both_calls_in_the_records_of_one_group(first: tuple[str, str]) -> None:
    second = SAVE if first == REDUCE else REDUCE
    dumps = [of_groups(0, REDUCE, SAVE), of_groups(1, first, second)]
    told = found([stack(0), stack(1)], dumps)

    assert told is not None
    assert (told.group, told.ranks) == ("0", (0, 1))
    assert (told.main.where and told.main.where.line, told.other.where and told.other.where.line) == (40, 9)


def test_a_group_of_its_own_is_no_reason() -> None:
    dumps = [of_groups(rank, REDUCE, SAVE_APART) for rank in (0, 1)]
    assert found([stack(0), stack(1)], dumps) is None


def test_one_thread_in_a_collective_is_none() -> None:
    dumps = [of_groups(rank, REDUCE, SAVE) for rank in (0, 1)]
    assert found([stack(0, other=""), stack(1, other="")], dumps) is None


def test_a_job_that_moves_has_no_such_trouble() -> None:
    dumps = [of_groups(rank, REDUCE, SAVE) for rank in (0, 1)]
    assert found([stack(0), stack(1)], dumps, moving=True) is None


BACKWARD = "_engine_run_backward (torch/autograd/graph.py:979)\n    backward (torch/_tensor.py:623)"


@pytest.mark.parametrize(("state", "is_told"), [("S", True), ("R", False)], ids=["sleeps in its hook", "computes"])
def test_backward_that_sleeps_is_in_the_all_reduce_of_a_hook(state: str, *, is_told: bool) -> None:
    def in_backward(rank: int) -> StackDump:
        pid = 100 + rank
        text = f"Process {pid}: python {TRAIN}\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        text += f'Thread {pid} (idle): "MainThread"\n    {BACKWARD}\n    train ({TRAIN}:40)\n'
        text += f'Thread {pid + 50} (idle): "saver"\n    {INSIDE.format("barrier")}\n    save ({TRAIN}:9)\n'
        (dump,) = read_stacks(text.encode(), source=f"stacks/rank_{rank}.txt", rank=rank)
        return dump

    dumps = [of_groups(0, REDUCE, SAVE), of_groups(1, SAVE, REDUCE)]
    told = found([in_backward(0), in_backward(1)], dumps, state=state)

    assert (told is not None) is is_told
    if told is not None:
        assert (told.main.operation, told.other.where and told.other.where.line) == ("all_reduce", 9)


@pytest.mark.parametrize(("call", "is_told"), [("dist.barrier()", True), ("dist.barrier(group=side)", False)])
def test_without_records_a_line_that_names_its_group_is_no_call_of_the_main_one(call: str, *, is_told: bool) -> None:
    source = "def save():\n" + "    x = 1\n" * 7 + f"    {call}\n"

    assert (found([stack(0), stack(1)], [], source=source) is not None) is is_told


ASYNC_SAVE = """



import torch.distributed.checkpoint as dcp

def train(model):
    dcp.load(model.state_dict())
    dcp.async_save(model.state_dict())
"""


@pytest.mark.parametrize(
    ("source", "line"),
    [(ASYNC_SAVE, 9), (ASYNC_SAVE.replace("dcp.async_save", "writer.async_save"), None), (ASYNC_SAVE * 2, None)],
    ids=["one call", "of another library", "two calls"],
)
def test_thread_of_a_library_is_at_the_only_line_that_can_have_begun_it(source: str, line: int | None) -> None:
    def saving(rank: int) -> StackDump:
        pid, library = 100 + rank, "/usr/lib/python3/site-packages/torch/distributed"
        text = f"Process {pid}: python {TRAIN}\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        text += f'Thread {pid} (idle): "MainThread"\n    {INSIDE.format("all_reduce")}\n    train ({TRAIN}:40)\n'
        text += (
            f'Thread {pid + 50} (idle): "AsyncCheckpointExecutor_0"\n    barrier ({library}/distributed_c10d.py:42)\n'
        )
        text += f"    save_wrapper ({library}/checkpoint/_async_thread_executor.py:30)\n"
        text += "    _bootstrap (/usr/lib/python3.11/threading.py:1002)\n"
        (dump,) = read_stacks(text.encode(), source=f"stacks/rank_{rank}.txt", rank=rank)
        return dump

    dumps = [of_groups(0, REDUCE, SAVE), of_groups(1, SAVE, REDUCE)]
    told = found([saving(0), saving(1)], dumps, source=source)

    assert told is not None
    assert (told.other.operation, told.other.where and told.other.where.line) == ("barrier", line)
