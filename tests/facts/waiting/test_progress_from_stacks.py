"""Stacks confirm or find who is inside a collective."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.jobs import call, recording
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame, LogReading, PythonTraceback, RecorderDump, SourceFile, StackDump
from unhang.evidence.stacks import read_stacks
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest, RankProcess

TRAIN = "/job/train.py"
COLLECTIVE = "{} (torch/distributed/distributed_c10d.py:3042)"


def stack(rank: int, *frames: str) -> StackDump:
    pid = 100 + rank
    text = f"Process {pid}: python {TRAIN}\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
    text += f'Thread {pid} (idle): "MainThread"\n' + "".join(f"    {frame}\n" for frame in frames)
    (dump,) = read_stacks(text.encode(), source=f"stacks/rank_{rank}.txt", rank=rank)
    return dump


def inside(rank: int, operation: str = "all_reduce", line: int = 40) -> StackDump:
    return stack(rank, COLLECTIVE.format(operation), f"main ({TRAIN}:{line})")


def facts(
    stacks: list[StackDump], dumps: list[RecorderDump] | None = None, moving: set[int] | None = None, world: int = 3
) -> Facts:
    processes = tuple(RankProcess(r, pid=100 + r, moving=r in (moving or set())) for r in range(world))
    manifest = BundleManifest(source=Source("bundle.json"), world_size=world, processes=processes)
    sources = [SourceFile(Source("train.py"), TRAIN, "\n" * 60)]
    return build_facts(EvidenceSet(recorder_dumps=dumps or [], stacks=stacks, manifests=[manifest], sources=sources))


def gloo(rank: int, completed: int, upto: int = 5, **parts: Any) -> RecorderDump:
    calls = [
        dict(call(p, state="scheduled", backend="gloo", **parts), retired=p <= completed) for p in range(1, upto + 1)
    ]
    return recording(rank, calls, groups={"0": ()}, status={"0": (upto, completed)})


def gathers(count: int) -> list[dict[str, Any]]:
    return [dict(call(p, "all_gather", state="scheduled", backend="gloo"), retired=True) for p in range(1, count + 1)]


def test_without_dumps_ranks_in_a_collective_wait_for_the_rank_that_is_not() -> None:
    known = facts([inside(0), inside(1), stack(2, f"work ({TRAIN}:9)", f"main ({TRAIN}:41)")])

    assert known.graph.roots == (2,)
    assert known.groups[STACK_GROUP].progress[0].source_kind == "stack"
    assert known.groups[STACK_GROUP].members_known is False


def test_without_dumps_all_in_a_collective_is_nobody_waiting_for_somebody() -> None:
    assert facts([inside(0), inside(1), inside(2)]).graph.edges == ()


def test_a_rank_of_which_there_is_no_stack_is_silent() -> None:
    assert facts([inside(0), inside(1)]).groups[STACK_GROUP].silent == (2,)


def test_gloo_that_counts_a_call_as_finished_is_corrected_by_the_stack() -> None:
    """Gloo may count a pending call as completed."""
    known = facts([inside(0), inside(1), stack(2, f"work ({TRAIN}:9)")], [gloo(0, 5), gloo(1, 5), gloo(2, 4, upto=4)])

    assert known.groups["0"].progress[0].pending is not None
    assert known.graph.roots == (2,)


@pytest.mark.parametrize("called", ["all_gather_single", "all_gather_object", "all_gather"])
def test_a_dump_without_frames_is_corrected_by_the_stack_whichever_function_makes_the_call(called: str) -> None:
    """The dump was written as its rank gave up; its stack was taken before."""
    bare = [dict(gather, frames=[]) for gather in gathers(5)]
    ahead = recording(0, bare, groups={"0": (0, 1)}, status={"0": (5, 5)})
    behind = recording(1, bare[:4], groups={"0": (0, 1)}, status={"0": (4, 4)})
    known = facts([inside(0, called), stack(1, f"work ({TRAIN}:9)")], [ahead, behind], world=2)

    pending = known.groups["0"].progress[0].pending
    assert pending is not None
    assert pending.position == 5
    assert known.graph.roots == (1,)


def test_gloo_whose_count_lags_is_corrected_by_the_later_call_a_rank_stands_in() -> None:
    """By the count call 4 is open on rank 0, which all entered; it stands in call 5, to which rank 1 never came."""
    ahead, behind = gloo(0, 3), gloo(1, 3, upto=4)
    elsewhere = stack(1, COLLECTIVE.format("barrier"), f"main ({TRAIN}:50)")
    known = facts([inside(0), elsewhere], [ahead, behind], world=2)

    pending = known.groups["0"].progress[0].pending
    assert pending is not None
    assert pending.position == 5
    assert [(edge.waiter, edge.awaited) for edge in known.graph.edges if edge.group == "0"] == [(0, 1)]


def in_a_pass(entry: dict[str, Any], line: int) -> dict[str, Any]:
    """The call as backward makes it."""
    frames = [{"name": "_engine_run_backward", "filename": "/venv/torch/autograd/graph.py", "line": 979}]
    return dict(entry, frames=[*frames, {"name": "main", "filename": TRAIN, "line": line}])


def lagging(backward: int, barrier: int) -> RecorderDump:
    """Calls 1 to 4 of backward and call 5, a barrier; by Gloo's count call 4 is open."""
    calls = [in_a_pass(call(p, state="scheduled", backend="gloo"), backward) for p in range(1, 5)]
    calls.append(call(5, "barrier", state="scheduled", backend="gloo", line=barrier, file=TRAIN))
    calls = [dict(one, retired=at < 3) for at, one in enumerate(calls)]
    return recording(0, calls, groups={"0": (0, 1)}, status={"0": (5, 3)})


def gave_up_in(line: int) -> LogReading:
    library = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    frames = (Frame("barrier", library, 5356), Frame("train", TRAIN, line))
    message = "Timed out waiting 4000ms for recv operation"
    raised = PythonTraceback(Source("rank0.log", 3), 0, None, "RuntimeError", message, frames)
    return LogReading(Source("rank0.log"), 0, (), (raised,), (), (), (), 9, (0,))


@pytest.mark.parametrize("ended", [False, True])
def test_what_backward_called_is_done_once_a_rank_has_left_it(*, ended: bool) -> None:
    """Of rank 1 there is no dump: whether it came to call 4 is not known, but rank 0 has gone on to the barrier."""
    stacks = [] if ended else [inside(0, "barrier", line=45)]
    logs = [gave_up_in(45)] if ended else []
    processes = (RankProcess(0, pid=100, exit_code=1 if ended else None), RankProcess(1, pid=101))
    manifest = BundleManifest(source=Source("bundle.json"), world_size=2, processes=processes)
    stacks.append(stack(1, f"work ({TRAIN}:9)"))
    known = build_facts(EvidenceSet(recorder_dumps=[lagging(41, 45)], stacks=stacks, manifests=[manifest], logs=logs))

    progress = known.groups["0"].progress[0]
    assert progress.pending is not None
    assert (progress.completed, progress.pending.position) == (4, 5)


def test_what_backward_called_may_be_open_while_a_rank_is_in_it() -> None:
    record = lagging(45, 45)  # as where the barrier is called in a hook of the same backward
    known = facts([inside(0, "barrier", line=45), stack(1, f"work ({TRAIN}:9)")], [record], world=2)

    pending = known.groups["0"].progress[0].pending
    assert pending is not None
    assert pending.position == 4


def test_a_dump_that_lists_groups_and_no_call_is_of_a_rank_that_called_nothing() -> None:
    """Sends and receives over Gloo are in no dump."""
    sender = recording(1, [], groups={"0": (0, 1)})
    known = facts(
        [inside(0), stack(1, COLLECTIVE.format("send"), f"main ({TRAIN}:50)")],
        [recording(0, [call(1, state="scheduled", backend="gloo")], groups={"0": (0, 1)}), sender],
        world=2,
    )

    assert known.groups["0"].silent == ()
    assert [(edge.awaited, edge.reason) for edge in known.graph.edges if edge.group == "0"] == [(1, "not-entered")]


def test_gloo_that_counts_a_failed_call_as_open_is_corrected_by_the_stack() -> None:
    busy = stack(1, f"work ({TRAIN}:9)", f"main ({TRAIN}:41)")
    known = facts([inside(0), busy, inside(2)], [gloo(0, 4), gloo(1, 3, upto=4), gloo(2, 4)])

    assert known.groups["0"].progress[1].pending is None
    assert known.graph.roots == (1,)


def test_a_rank_that_moves_is_not_stuck_where_its_dump_was_taken() -> None:
    known = facts([inside(0), inside(1), inside(2)], [gloo(r, 4) for r in range(3)], moving={0, 1, 2})

    assert all(p.pending is None for p in known.groups["0"].progress.values())


def test_a_call_in_which_the_rank_timed_out_is_open_whatever_gloo_counts() -> None:
    library = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
    frames = (Frame("all_reduce", library, 3042), Frame("train", TRAIN, 40))
    raised = PythonTraceback(
        Source("rank0.log", 3), 0, None, "RuntimeError", "Timed out waiting 4000ms for recv operation", frames
    )
    log = LogReading(Source("rank0.log"), 0, (), (raised,), (), (), (), 9, (0,))
    evidence = EvidenceSet(recorder_dumps=[gloo(0, 5), gloo(1, 4, upto=4)], logs=[log])

    known = build_facts(evidence)

    pending = known.groups["0"].progress[0].pending
    assert pending is not None
    assert pending.position == 5
    assert known.graph.roots == (1,)


def test_before_the_second_forward_ddp_shares_its_buckets_below_python() -> None:
    wrapper = "torch/nn/parallel/distributed.py"
    forward = (f"_pre_forward ({wrapper}:1775)", f"forward ({wrapper}:1886)", f"main ({TRAIN}:40)")

    known = facts([stack(0, *forward), stack(1, *forward), stack(2, f"work ({TRAIN}:9)", f"main ({TRAIN}:38)")])

    assert known.graph.roots == (2,)
    pending = known.groups[STACK_GROUP].progress[0].pending
    assert pending is not None
    assert pending.operation == "broadcast"


def test_a_wrapper_that_copies_its_inputs_to_the_device_waits_for_nobody() -> None:
    copies = ("_recursive_to (torch/distributed/utils.py:134)", "_pre_forward (torch/nn/parallel/distributed.py:1791)")

    assert facts([stack(rank, *copies, f"main ({TRAIN}:40)") for rank in range(3)]).graph.edges == ()


BACKWARD = ("_engine_run_backward (torch/autograd/graph.py:979)", "backward (torch/_tensor.py:623)")


def in_backward(state: str, moving: bool) -> Facts:
    stacks = [*(stack(r, *BACKWARD, f"main ({TRAIN}:40)") for r in (0, 1)), stack(2, f"work ({TRAIN}:9)")]
    processes = tuple(RankProcess(r, pid=100 + r, moving=moving, state=state) for r in range(3))
    manifest = BundleManifest(source=Source("bundle.json"), world_size=3, processes=processes)
    return build_facts(EvidenceSet(stacks=stacks, manifests=[manifest]))


def test_whoever_sleeps_in_backward_in_every_look_waits_in_a_hook() -> None:
    assert in_backward("S", moving=False).graph.roots == (2,)


def test_whoever_computes_in_backward_or_moves_on_waits_for_nobody() -> None:
    assert in_backward("R", moving=False).graph.edges == ()
    assert in_backward("S", moving=True).graph.edges == ()
