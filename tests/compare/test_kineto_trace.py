"""Traces of torch.profiler: every moment of a step goes to the innermost activity, whatever the file looks like."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trace_samples import Sample, training
from unhang.evidence.profiler_trace import looks_like_trace
from unhang.findings import Phase, Unread
from unhang_compare.kineto import columns, event_stream
from unhang_compare.kineto.reading import read_trace
from unhang_compare.rank_times import CARD, DEVICE, MAIN, OWN, THREAD, WAITING, RankTimes


def read(path: Path) -> RankTimes:
    found = read_trace(path)
    assert isinstance(found, RankTimes), found
    return found


def spent(times: RankTimes, **wanted: object) -> float:
    """Milliseconds a step in activities with these fields."""
    chosen = [
        seconds.mean()
        for activity, seconds in times.spent.items()
        if all(getattr(activity, name) == value for name, value in wanted.items())
    ]
    return 1e3 * float(sum(chosen))


def test_the_parts_of_a_step_add_up_to_it(tmp_path: Path) -> None:
    times = read(training().write(tmp_path / "rank0_trace.json"))

    whole = sum(seconds for activity, seconds in times.spent.items() if activity.on == MAIN)

    assert np.allclose(whole, times.step_s, rtol=1e-6)
    assert times.last_step.tolist() == list(range(12))


def test_the_innermost_line_of_the_user_s_own_gets_the_time_of_what_it_calls(tmp_path: Path) -> None:
    times = read(training(work_ms=3).write(tmp_path / "t.json"))

    (writing,) = [a for a in times.spent if a.where is not None and a.where.function == "write" and a.called]

    assert (writing.where.file, writing.where.line, writing.called) == ("train.py", 7, "built-in sleep")
    assert writing.kind == OWN
    assert spent(times, called="built-in sleep") == pytest.approx(3, rel=0.05)


def test_waiting_in_a_collective_is_told_from_work(tmp_path: Path) -> None:
    times = read(training(wait_ms=6).write(tmp_path / "t.json"))

    assert spent(times, kind=WAITING, phase=Phase.COMMUNICATION) == pytest.approx(6, rel=0.05)
    assert {a.operation for a in times.spent if a.kind == WAITING} == {"built-in wait of PyCapsule"}


def test_objects_at_different_addresses_are_one_operation(tmp_path: Path) -> None:
    times = read(training(steps=40).write(tmp_path / "t.json"))

    assert len(times.spent) < 8


def test_a_packed_trace_reads_like_a_plain_one(tmp_path: Path) -> None:
    plain, packed = (read(training().write(tmp_path / name)) for name in ("a.json", "b.pt.trace.json.gz"))

    assert plain.step_s.tolist() == packed.step_s.tolist()
    assert plain.rank == packed.rank == 0
    assert plain.world_size == 2


def test_the_rank_is_the_file_s_where_the_trace_says_nothing(tmp_path: Path) -> None:
    sample = training()
    sample.rank = None

    assert read(sample.write(tmp_path / "rank5_trace.json")).rank == 5


def test_without_steps_of_the_profiler_the_optimizer_s_count(tmp_path: Path) -> None:
    sample = Sample()
    for at in range(5):
        sample.add("cpu_op", "aten::mm", 10 * at, 8)
        sample.add("user_annotation", "Optimizer.step#AdamW.step", 10 * at + 8, 1)

    times = read(sample.write(tmp_path / "t.json"))

    assert times.step_s.tolist() == pytest.approx([0.01] * 4)


def test_without_any_step_the_whole_trace_is_one(tmp_path: Path) -> None:
    sample = Sample()
    sample.add("cpu_op", "aten::mm", 0, 8)
    sample.add("cpu_op", "aten::add", 9, 1)

    times = read(sample.write(tmp_path / "t.json"))

    assert times.step_s.tolist() == pytest.approx([0.01])
    assert spent(times, operation="aten::mm") == pytest.approx(8)


def test_a_kernel_belongs_to_the_line_that_launched_it(tmp_path: Path) -> None:
    sample = Sample()
    sample.add("user_annotation", "ProfilerStep#3", 0, 20)
    sample.add("python_function", "model.py(12): forward", 1, 5)
    sample.add("cpu_op", "aten::mm", 2, 1, **{"External id": 77})
    sample.add("cuda_runtime", "cudaDeviceSynchronize", 8, 9)
    sample.add("kernel", "sm90_gemm", 4, 7, tid="stream 7", **{"External id": 77, "stream": 7})
    sample.add("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 11, 6, tid=20)

    times = read(sample.write(tmp_path / "t.json"))

    (gemm,) = [a for a in times.spent if a.operation == "sm90_gemm"]
    assert (gemm.where.function, gemm.on, gemm.kind) == ("forward", CARD, OWN)
    assert spent(times, on=CARD, kind=WAITING) == pytest.approx(6)
    assert spent(times, on=MAIN, kind=DEVICE) == pytest.approx(9)
    assert spent(times, on=MAIN) == pytest.approx(20)


def test_backward_on_another_thread_belongs_to_the_line_that_called_it(tmp_path: Path) -> None:
    sample = Sample()
    sample.add("user_annotation", "ProfilerStep#1", 0, 20)
    sample.add("python_function", "train.py(9): step", 1, 18)
    sample.add("python_function", "<built-in method run_backward of torch._C._EngineBase object at 0x7f00>", 2, 12)
    sample.add("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 3, 4, tid=200)

    times = read(sample.write(tmp_path / "t.json"))

    (there,) = [a for a in times.spent if a.on == THREAD]
    assert there.where is not None
    assert there.where.function == "step"


def test_frames_of_the_profiler_that_never_end_hide_nothing(tmp_path: Path) -> None:
    sample = training()
    sample.add("python_function", "torch/profiler/profiler.py(1227): step", -0.9, 1e5)

    times = read(sample.write(tmp_path / "t.json"))

    assert not [a for a in times.spent if "profiler" in a.called]


def test_what_is_written_in_pieces_reads_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = training(steps=30)
    for at, event in enumerate(sample.events):
        event["args"] = {"note": 'a text with }, { "ph": "X" in it \\" ', "list": [{"a": 1}, {"b": [{}, {}]}], "n": at}
    path = sample.write(tmp_path / "t.json")
    whole = read(path)

    for size in (1 << 12, 1 << 13, 5_000):
        monkeypatch.setattr(event_stream, "PIECE_BYTES", size)
        again = read(path)
        assert again.step_s.tolist() == whole.step_s.tolist()
        assert again.unread == ()
        assert {a: v.tolist() for a, v in again.spent.items()} == {a: v.tolist() for a, v in whole.spent.items()}


def test_many_events_lie_on_disk_and_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = training(steps=200).write(tmp_path / "t.json")
    whole = read(path)
    monkeypatch.setattr(event_stream, "PIECE_BYTES", 1 << 14)
    monkeypatch.setattr(columns, "RUN_EVENTS", 128)

    again = read(path)

    assert {a: v.round(9).tolist() for a, v in again.spent.items()} == {
        a: v.round(9).tolist() for a, v in whole.spent.items()
    }


@settings(max_examples=60)
@given(starts=st.lists(st.integers(0, 12), min_size=1, max_size=200), lengths=st.randoms(use_true_random=False))
def test_events_come_back_in_order_however_they_lay(starts: list[int], lengths: Random) -> None:
    rows = np.zeros(len(starts), columns.EVENT)
    rows["start"], rows["name"] = starts, range(len(starts))
    rows["end"] = [start + lengths.random() for start in starts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "RUN_EVENTS", 16)
        patch.setattr(columns, "MIN_READ", 3)
        kept = columns.EventColumns()
        for at in range(0, len(rows), 7):
            kept.add(rows[at : at + 7])
        back = np.concatenate(list(kept.in_order()))
        kept.close()

    assert sorted(back["name"].tolist()) == list(range(len(starts)))
    keys = list(zip(back["start"].tolist(), (-back["end"]).tolist(), strict=True))
    assert keys == sorted(keys)


def test_a_damaged_event_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PIECE_BYTES", 1 << 12)
    text = training(steps=60).text().replace('"ProfilerStep#30"', '"Profiler\x01Step#30', 1)
    path = tmp_path / "t.json"
    path.write_text(text)

    times = read(path)

    assert len(times.step_s) >= 55
    assert "damaged" in " ".join(unread.reason for unread in times.unread)


def test_events_of_another_shape_are_left_out_and_counted(tmp_path: Path) -> None:
    sample = training()
    sample.events.append({"ph": "X", "name": ["no", "text"], "ts": 5.0, "cat": "cpu_op"})

    times = read(sample.write(tmp_path / "t.json"))

    assert len(times.step_s) == 12
    assert [unread.reason for unread in times.unread] == ["1 of its events are damaged and were left out"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(share=st.floats(0, 1), packed=st.booleans())
def test_a_torn_trace_gives_what_is_whole_and_says_so(tmp_path: Path, share: float, packed: bool) -> None:
    data = training(steps=20).text().encode()
    data = gzip.compress(data) if packed else data
    path = tmp_path / "torn.json"
    path.write_bytes(data[: int(len(data) * share)])

    found = read_trace(path)

    if isinstance(found, Unread):
        assert found.reason
    elif len(found.step_s) < 20:
        assert found.unread


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.binary(max_size=400), at=st.integers(0, 4000))
def test_bytes_of_any_kind_never_raise(tmp_path: Path, data: bytes, at: int) -> None:
    text = training(steps=3).text().encode()
    path = tmp_path / "any.json"
    path.write_bytes(text[:at] + data + text[at:])

    assert isinstance(read_trace(path), RankTimes | Unread)


Tree = list["tuple[float, Tree]"]
trees: st.SearchStrategy[Tree] = st.recursive(
    st.just([]), lambda inner: st.lists(st.tuples(st.floats(0.01, 1), inner), max_size=4), max_leaves=25
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(tree=trees, order=st.randoms())
def test_self_times_are_right_for_any_nesting_in_any_order(tmp_path: Path, tree: Tree, order: object) -> None:
    sample = Sample()
    own: dict[str, float] = {}

    def lay(nodes: Tree, begin: float, length: float) -> float:
        """Children beside each other in the first nine tenths; returns how much of ``length`` they take."""
        total, at = sum(size for size, _ in nodes), begin
        for size, inner in nodes:
            mine = 0.9 * length * size / total
            name = f"aten::op{len(own)}"
            own[name] = 0.0
            sample.add("cpu_op", name, at, mine)
            own[name] = mine - lay(inner, at, mine)
            at += mine
        return at - begin

    sample.add("user_annotation", "ProfilerStep#0", 0, 1000)
    lay(tree, 0, 1000)
    order.shuffle(sample.events)  # type: ignore[attr-defined]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": sample.events}))

    times = read(path)

    for name, wanted in own.items():
        assert spent(times, operation=name) == pytest.approx(wanted, abs=0.01)


def test_a_bare_list_of_events_is_a_trace_too(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(training().events))

    assert looks_like_trace(path.read_bytes())
    assert len(read(path).step_s) == 12


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no list of events"),
        (b'{"version": "2.10", "entries": []}', "holds no list of events"),
        (b"\x80\x04\x95 pickle", "holds no list of events"),
        (b'{"traceEvents": []}', "without a single event"),
        (b'{"traceEvents": [', "cut short"),
        (b"\x1f\x8b\x08\x00 torn", "cut short or damaged"),
    ],
)
def test_what_is_no_trace_is_said_in_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)

    found = read_trace(path)

    assert isinstance(found, Unread)
    assert said in found.reason


def test_a_file_that_unpacks_to_nothing_but_zeros_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_BYTES_WITHOUT_EVENT", 24 << 20)
    begin = training().text().partition('"ProfilerStep#5"')[0].encode()
    with gzip.open(tmp_path / "t.json.gz", "wb", compresslevel=1) as file:
        file.write(begin)
        for _ in range(60):
            file.write(bytes(1 << 20))

    times = read(tmp_path / "t.json.gz")

    assert len(times.step_s) == 5
    assert "holds no event for 24 MiB" in times.unread[0].reason


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.json")

    found = read_trace(tmp_path / "t.json")

    assert isinstance(found, Unread)
    assert "not a file" in found.reason


def test_more_steps_than_samples_share_them(tmp_path: Path) -> None:
    sample = Sample()
    for at in range(3000):
        sample.add("user_annotation", f"ProfilerStep#{at}", at, 1)

    times = read(sample.write(tmp_path / "t.json"))

    assert len(times.step_s) == 1000
    assert times.steps.tolist() == [3.0] * 1000
    assert times.last_step.tolist()[:2] == [2, 5]
    assert times.step_s.tolist() == pytest.approx([0.001] * 1000, rel=1e-3)
