# ruff: noqa: E501 - log lines are as long as they are
"""Messages that go over several lines or hold several facts."""

from __future__ import annotations

import io

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log


def read(text: str) -> LogReading:
    return read_log(io.BytesIO(text.encode()), source="job.log")


def test_a_fingerprint_mismatch_gives_both_calls() -> None:
    options = (
        "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, layout=Strided (default), "
        "requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))"
    )
    (event,) = read(
        "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        f"CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE, TensorShape=[4, 8], TensorDtypes=BFloat16, {options}"
        "), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=13, OpType=BARRIER)."
        "Collectives differ in the following aspects: \t Op type: ALLREDUCEvs BARRIER\n"
    ).events
    assert (event.kind, event.rank, event.values["other_rank"]) == ("det.mis", 1, 0)
    assert event.values["mine"] == {"position": 12, "operation": "all_reduce", "shape": (4, 8), "dtype": "bfloat16"}
    assert event.values["theirs"] == {"position": 13, "operation": "barrier"}


def test_a_desync_report_names_ranks_and_positions() -> None:
    reading = read(
        "[E ProcessGroupNCCL.cpp:474] \n"
        "\t - [0] Timeout at collective: ALLREDUCE, #41\n"
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
        "\t   - [0, 1, 2] joined but didn't finish collective #41 (count from 1)\n"
        "\t     [3] finished collective #40, but didn't join collective #41 (count from 1)\n"
    )
    told = {event.kind: event.values for event in reading.events}
    assert told["desync.joined"]["ranks"] == (0, 1, 2)
    assert told["desync.behind"] == {"ranks": (3,), "last_completed": 40, "position": 41}


def test_a_monitored_barrier_names_the_missing_rank_and_its_gloo_reason() -> None:
    reading = read(
        "[rank0]: RuntimeError: Rank 3 failed to pass monitoredBarrier in 30000 ms\n"
        "[rank0]:  Original exception: \n"
        "[rank0]: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 30000ms for recv"
        " operation to complete\n"
    )
    assert [(event.kind, event.rank) for event in reading.events] == [("mb.one", 0), ("gloo.to", 0)]
    assert reading.events[0].values == {"ranks": (3,), "limit_ms": 30000}


def test_waiting_for_the_id_of_nccl_holds_the_reason_inside() -> None:
    reading = read(
        "[rank7]: torch.distributed.DistBackendError: [7] is setting up NCCL communicator and retrieving ncclUniqueId "
        "from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, "
        "keys: /default_pg/0//cuda//0\n"
    )
    outer, inner = reading.events
    assert (outer.kind, outer.values["from_rank"]) == ("uid.wait", 0)
    assert (inner.kind, inner.values["inside"], inner.values["limit_ms"]) == ("store.wait", "uid.wait", 600000)
    assert inner.rank == 7


def test_harmless_lines_are_marked_in_the_knowledge() -> None:
    from unhang.knowledge.messages import message_row

    (event,) = read(
        "h1:1:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n"
    ).events
    assert message_row(event.kind).benign


def test_unknown_warnings_of_nccl_are_still_kept() -> None:
    (event,) = read("h1:1:2 [0] enqueue.cc:1556 NCCL WARN Something nobody has described yet\n").events
    assert (event.kind, event.values["error"], event.host) == ("n.warn", "Something nobody has described yet", "h1")
