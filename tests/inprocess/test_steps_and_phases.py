"""The small parts that work on plain values."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
import time
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from unhang.inprocess import activation, code_phases, session, steps
from unhang.inprocess.capture.frames import StackSampler
from unhang.inprocess.capture.recorder import FlightRecorder, GroupNames
from unhang.wire.layout import pack, unpack
from unhang.wire.process_registration import read_internal_errors
from unhang.wire.record_views import PHASES, GroupProgress, RankIdentity, RecordView

SITE = "/opt/env/lib/python3.11/site-packages"
C10D = (f"{SITE}/torch/distributed/distributed_c10d.py", "all_reduce")


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ([C10D, ("/home/u/train.py", "main")], "communication"),
        ([C10D, (f"{SITE}/safetensors/torch.py", "save"), ("/home/u/t.py", "save_model")], "communication"),
        ([(f"{SITE}/torch/nn/modules/linear.py", "forward"), ("/home/u/train.py", "main")], "compute"),
        ([(f"{SITE}/torch/nn/modules/linear.py", "forward"), ("/home/u/train.py", "evaluate")], "eval"),
        ([(f"{SITE}/torch/autograd/graph.py", "_engine_run_backward"), ("/home/u/train.py", "main")], "compute"),
        ([(f"{SITE}/torch/serialization.py", "save"), ("/home/u/train.py", "main")], "save"),
        ([(f"{SITE}/torch/utils/data/dataloader.py", "__next__"), ("/home/u/train.py", "evaluate")], "data"),
        ([(f"{SITE}/wandb/sdk/run.py", "log"), ("/home/u/train.py", "main")], "log"),
        ([(f"{SITE}/torch/distributed/distributed_c10d.py", "destroy_process_group")], "shutdown"),
        ([("/home/u/torch/nn/mine.py", "forward")], "other"),
        ([("/home/u/train.py", "main")], "other"),
        ([], "other"),
    ],
)  # fmt: skip
def test_the_innermost_line_with_a_meaning_names_the_phase(frames: list[tuple[str, str]], phase: str) -> None:
    assert code_phases.phase_of_stack(frames) == phase


def test_every_phase_of_the_tables_is_a_phase() -> None:
    assert {phase for _, phase in code_phases.PHASE_BY_PATH} | set(code_phases.PHASE_BY_FUNCTION.values()) <= set(
        PHASES
    )


def test_python_and_installed_packages_are_not_the_users() -> None:
    strangers = (
        os.__file__,
        threading.__file__,
        f"{SITE}/torch/x.py",
        "<frozen importlib._bootstrap>",
        code_phases.__file__,
    )

    assert [code_phases.classify_file(path)[0] for path in strangers] == [False] * 5
    assert code_phases.classify_file("/home/u/train.py")[0]
    assert code_phases.classify_file("train.py")[0]


def test_steps_are_whole_rounds_of_collectives() -> None:
    view, rhythm = RecordView(groups=[GroupProgress("0", 2, enqueued=0)]), steps.StepCounter()

    for beat in range(40):
        view.groups[0].enqueued = 10 * beat
        rhythm.follow(view, 5, beat * 200_000_000)

    assert view.step_source == "rhythm"
    assert view.steps == 78
    assert view.step_mean_ns == pytest.approx(100e6)
    assert view.step_durations_ns == [100_000_000] * 32


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[str, int]]:
    """Torch's optimizers are counted from now to the end of the test; called: the source of steps, and how many."""
    monkeypatch.setattr(sys.modules["torch.optim.optimizer"], "_global_optimizer_post_hooks", OrderedDict())
    monkeypatch.setattr(steps, "_optimizers", steps._OptimizerSteps())
    steps.count_optimizer_steps()

    def count() -> tuple[str, int]:
        view = RecordView()
        steps.StepCounter().follow(view, 0, 5)
        return view.step_source, view.steps

    return count


def parameters(number: int) -> list[torch.nn.Parameter]:
    made = [torch.nn.Parameter(torch.zeros(2)) for _ in range(number)]
    for one in made:
        one.grad = torch.ones(2)
    return made


def test_a_step_of_the_optimizer_is_a_step(counted: Callable[[], tuple[str, int]]) -> None:
    for optimizer in [torch.optim.AdamW(parameters(3)) for _ in range(2)]:
        for _ in range(4):
            optimizer.step()

    assert counted() == ("optimizer", 7)  # that the second begins a step shows when it comes again


def test_several_optimizers_of_a_loop_count_once(counted: Callable[[], tuple[str, int]]) -> None:
    critic, generator = (torch.optim.SGD(parameters(2), lr=0.1) for _ in range(2))
    for _ in range(5):
        critic.step()
        generator.step()

    assert counted() == ("optimizer", 5)


def test_zero_that_steps_one_optimizer_for_each_group_counts_once(counted: Callable[[], tuple[str, int]]) -> None:
    """deepspeed/runtime/zero/stage_1_and_2.py, _optimizer_step: one group at a time is put into the optimizer."""
    optimizer = torch.optim.SGD([{"params": parameters(1)}, {"params": parameters(1)}], lr=0.1)
    groups = optimizer.param_groups
    for _ in range(6):
        for group in groups:
            optimizer.param_groups = [group]
            optimizer.step()
        optimizer.param_groups = groups

    assert counted() == ("optimizer", 6)


def test_torchs_own_zero_counts_the_inner_and_the_outer_optimizer_once(counted: Callable[[], tuple[str, int]]) -> None:
    class Outer(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # as ZeroRedundancyOptimizer.step
            inner.step()

    shared = parameters(2)
    inner, outer = torch.optim.SGD(shared, lr=0.1), Outer(shared, lr=0.1)
    for _ in range(6):
        outer.step()

    assert counted() == ("optimizer", 6)


def test_without_a_step_of_an_optimizer_there_is_no_source(counted: Callable[[], tuple[str, int]]) -> None:
    torch.optim.SGD(parameters(1), lr=0.1).zero_grad()

    assert counted() == ("none", 0)


def test_without_a_rhythm_there_are_no_steps() -> None:
    view = RecordView(groups=[GroupProgress("0", 2, enqueued=50)])

    steps.StepCounter().follow(view, 0, 5)

    assert (view.step_source, view.steps, view.step_durations_ns) == ("none", 0, [])


def test_a_recorder_that_starts_anew_begins_a_new_rhythm() -> None:
    view, rhythm = RecordView(groups=[GroupProgress("0", 2, enqueued=0)]), steps.StepCounter()

    for beat, enqueued in enumerate((100, 110, 120, 0, 10, 20)):
        view.groups[0].enqueued = enqueued
        rhythm.follow(view, 10, beat * 100_000_000)

    assert min(view.step_durations_ns) == 100_000_000


def test_looking_keeps_nothing_alive() -> None:
    class Big:
        pass

    seen: list[weakref.ref[Big]] = []
    hold, go = threading.Event(), threading.Event()

    def work() -> None:
        big = Big()
        seen.append(weakref.ref(big))
        go.set()
        hold.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    go.wait(60)
    view = RecordView()
    gc.disable()
    try:
        StackSampler(thread.ident or 0, thread.native_id or 0).sample(view, 7)
    finally:
        gc.enable()
    hold.set()
    thread.join()

    assert view.user == view.user.__class__(__file__, view.user.line, "work")
    assert (view.thread_id, view.since_ns) == (thread.native_id, 7)
    assert seen[0]() is None


def test_a_stack_that_stands_still_keeps_its_beginning() -> None:
    hold = threading.Event()
    thread = threading.Thread(target=hold.wait, args=(60,))
    thread.start()
    for _ in range(1000):  # it may not have come to its wait yet
        view, sampler = RecordView(), StackSampler(thread.ident or 0, 1)
        for now_ns in (5, 6, 7):
            sampler.sample(view, now_ns)
        if view.since_ns == 5:
            break
        time.sleep(0.01)
    hold.set()
    thread.join()

    assert (view.since_ns, view.sampled_ns) == (5, 7)


def stack_of(frames: int, folder: str) -> list[str]:
    """The record's stack of a thread ``frames`` calls deep in files of ``folder``, innermost first."""
    source = "def down(n, wait):\n    wait() if n == 0 else down(n - 1, wait)\n"
    names: dict[str, Any] = {}
    exec(compile(source, f"{folder}/model.py", "exec"), names)
    hold, go = threading.Event(), threading.Event()

    def program() -> None:
        names["down"](frames, lambda: go.set() or hold.wait(60))

    thread = threading.Thread(target=program)
    thread.start()
    go.wait(60)
    view = RecordView()
    StackSampler(thread.ident or 0, 1).sample(view, 5)
    hold.set()
    thread.join()
    return unpack(pack(view), RankIdentity()).stack.splitlines()


def test_a_deep_stack_with_long_paths_fits() -> None:
    """A model of transformers in a trainer's loop: some forty calls with 100 characters each."""
    stack = stack_of(40, "/home/mia/projects/.venv/lib/python3.11/site-packages/transformers/models/qwen2_moe")

    assert sum("model.py:2:down" in line for line in stack) == 41
    assert stack[-1].endswith(":_bootstrap")


@pytest.mark.parametrize("folder", ["/home/user/" + "deep/" * 60, "/数据/" + "训练/" * 60], ids=["long", "wide"])
def test_of_a_stack_that_does_not_fit_both_ends_are_told(folder: str) -> None:
    stack = stack_of(200, folder)

    assert ":wait" in stack[0] or "<lambda>" in "".join(stack[:3])
    assert any(":program" in line for line in stack), "from where the program called it"
    assert stack[-1].endswith(":_bootstrap")
    assert 10 < sum("model.py:2:down" in line for line in stack) < 100


def test_a_thread_that_is_gone_leaves_an_empty_stack() -> None:
    view = RecordView()

    StackSampler(12345, 1).sample(view, 5)

    assert (view.stack, view.phase) == ("", "other")


def test_ids_of_wrapped_and_mixed_groups_are_counted_as_torch_hands_them_out() -> None:
    groups = GroupNames()
    groups.add("0", 4, "cpu:gloo,cuda:nccl", wrapped=False)
    groups.add("1", 2, "cuda:nccl", wrapped=True)
    groups.add("2", 2, "cpu:gloo,cuda:gloo", wrapped=False)

    named = {kind: [group and group.name for group in made] for kind, made in groups.made.items()}
    assert named == {"nccl": ["0", "1"], "other": ["0", None, "2"]}


def test_a_count_that_goes_back_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"last_enqueued_collective": 5, "last_started_collective": -1, "last_completed_collective": 4}
    module = types.SimpleNamespace(_dump_fr_trace=lambda **_: pickle.dumps({"pg_status": {"0": dict(said)}}))
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", module)  # type: ignore[arg-type]
    recorder = FlightRecorder(GroupNames())

    recorder.read(1)
    said["last_completed_collective"] = 2
    recorder.read(2)

    (group,) = recorder.living([])
    assert (group.name, group.enqueued, group.completed, group.changed_ns) == ("?0", 5, 4, 1)


@pytest.mark.parametrize(
    ("version", "user", "found"),
    [
        ("2.4.1+cu121", {}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}),
        ("2.8.0", {}, {"TORCH_FR_BUFFER_SIZE": "2000"}),
        ("2.10.1", {}, {"TORCH_FR_BUFFER_SIZE": "2000"}),
        ("2.11.0a0+git", {}, {}),
        ("2.13.0", {}, {}),
        ("2.8.0", {"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}),
        ("2.8.0", {"TORCH_FR_BUFFER_SIZE": "50"}, {"TORCH_FR_BUFFER_SIZE": "50"}),
        ("strange", {}, {}),
    ],
)
def test_the_recorder_is_switched_on_only_where_nobody_decided(
    version: str, user: dict[str, str], found: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__=version))  # type: ignore[arg-type]
    for name in ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in user.items():
        monkeypatch.setenv(name, value)

    activation._enable_flight_recorder()

    assert {name: value for name, value in os.environ.items() if name.endswith("BUFFER_SIZE")} == found


def test_a_recorder_that_fails_is_asked_no_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def dump(**_: bool) -> bytes:
        asked.append(1)
        raise TypeError("another torch")

    monkeypatch.setenv("UNHANG_RUN", str(tmp_path))
    (tmp_path / "births").mkdir()
    module = types.SimpleNamespace(_dump_fr_trace=dump)
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", module)  # type: ignore[arg-type]
    recorder = FlightRecorder(GroupNames())
    rank = session.Session(0, 1, "gloo")
    for now_ns in (1, 2, 3):
        rank._ask(recorder, now_ns, in_a_call=False)

    assert asked == [1]
    assert "another torch" in str(read_internal_errors(tmp_path))


def test_where_a_rank_fell_stands_until_the_hooks_have_had_their_time() -> None:
    """Killed in the hook that writes what it raised, it would be seen there, and its own line nowhere."""
    view, sampler = RecordView(), StackSampler(threading.get_ident(), 1)
    sampler.own = 0
    fell = [
        ("/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 4287, "all_gather"),
        ("/job/train.py", 40, "main"),
    ]
    second = 1_000_000_000

    sampler.falls(fell, 5 * second)
    sampler.sample(view, 5 * second + 1)
    first, since_ns = view.stack, view.since_ns
    sampler.sample(view, 5 * second + 2)
    assert (view.stack, view.since_ns) == (first, since_ns)
    assert (view.user.file, view.user.line, view.phase) == ("/job/train.py", 40, "communication")

    sampler.sample(view, 7 * second)
    assert "/job/train.py" not in view.stack
