"""What a process was doing: by the thread that matters, from real and real-shaped stacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.items import Frame, SourceFile, StackDump
from unhang.evidence.stacks import read_stacks
from unhang.facts.model import Activity, CodeContext
from unhang.facts.stacks.activity import activity_of
from unhang.facts.stacks.user_frames import first_user_frame, is_user_frame
from unhang.findings import Phase, Source, Where

STACKS = Path(__file__).parents[2] / "evidence" / "stacks" / "samples"


def from_file(name: str, rank: int = 3) -> tuple[Activity, tuple[Activity, ...]]:
    (dump,) = read_stacks((STACKS / name).read_bytes(), source=name, rank=rank)
    activity, others = activity_of(dump, {})
    assert activity is not None
    return activity, others


def dump_of(*threads: str, header: str = "Process 10: python train.py\n\n") -> StackDump:
    """A py-spy dump of threads given as ``name | frame | frame``, innermost first."""
    text = header
    for number, thread in enumerate(threads):
        name, *frames = [part.strip() for part in thread.split("|")]
        thread_id = 10 if name == "MainThread" else 100 + number
        text += f'Thread {thread_id} (idle): "{name}"\n' + "".join(f"    {frame}\n" for frame in frames)
    (dump,) = read_stacks(text.encode(), source="rank0.txt", rank=0)
    return dump


def what_of(*threads: str, program: str = "") -> Activity:
    sources = {"train.py": SourceFile(Source("train.py"), "train.py", program)} if program else {}
    activity, _ = activity_of(dump_of(*threads), sources)
    assert activity is not None
    return activity


@pytest.mark.parametrize(
    ("name", "what", "phase", "operation", "line"),
    [
        ("loader_wait.txt", "dataloader-wait", Phase.DATA, None, 18),
        ("loader_worker.json", "dataloader-worker", Phase.DATA, None, 8),
        ("loader_worker_locals.txt", "dataloader-worker", Phase.DATA, None, 8),
        ("ddp_backward_native.txt", "collective", Phase.COMMUNICATION, "all_reduce", 19),
        ("work_wait_native.txt", "collective", Phase.COMMUNICATION, "wait", 18),
        ("broadcast_object.txt", "collective", Phase.COMMUNICATION, "broadcast", 32),
        ("torch_save.txt", "torch-save", Phase.SAVE, None, 31),
        ("new_group.txt", "group-setup", Phase.INIT, None, 51),
        ("ctypes_native.txt", "native", Phase.OTHER, None, 5),
        ("faulthandler_loader_wait.txt", "dataloader-wait", Phase.DATA, None, 18),
        ("train_thread_waiter.txt", "collective", Phase.COMMUNICATION, "all_reduce", 23),
    ],
)
def test_real_stacks(name: str, what: str, phase: Phase, operation: str | None, line: int) -> None:
    activity, _ = from_file(name)
    assert (activity.what, activity.phase, activity.operation) == (what, phase, operation)
    assert activity.where is not None
    assert activity.where.line == line
    assert activity.evidence.rank == 3
    assert activity.evidence.source.path == name


def test_native_frames_of_gdb_alone_tell_a_backward_that_waits() -> None:
    activity, others = from_file("gdb_ddp_backward.txt")
    assert (activity.what, activity.operation, activity.where) == ("collective", "all_reduce", None)
    assert activity.thread is not None
    assert activity.thread.thread_id == "7710"
    assert all(other.operation is not None for other in others)


def test_the_thread_in_a_collective_goes_before_the_main_thread() -> None:
    activity, others = from_file("train_thread_waiter.txt")
    assert activity.thread is not None
    assert activity.thread.name == "Thread-1 (body)"
    assert [(other.what, other.where.line if other.where else None) for other in others] == [("join", 26)]


JOIN = "MainThread | Thread.join (threading.py:1119) | main (train.py:40) | <module> (train.py:50)"


def test_a_main_thread_that_joins_a_thread_that_is_gone() -> None:
    activity = what_of(JOIN)
    assert (activity.what, activity.where) == ("join", Where("train.py", 40, "main"))


def test_a_main_thread_that_joins_gives_way_to_the_thread_that_trains() -> None:
    activity = what_of(JOIN, "trainer | f (train.py:9) | run (train.py:12) | Thread.run (threading.py:982)")
    assert activity.where == Where("train.py", 9, "f")
    assert activity.what == "user-code"


def test_an_idle_actor_gives_way_to_the_thread_that_trains() -> None:
    idle = """Thread 1 (idle): "MainThread"
    main_loop (ray/_private/worker.py:1069)
    <module> (ray/_private/workers/default_worker.py:323)"""
    trains = """Thread 2 (active): "Thread-1 (train)"
    relabel (/job/train.py:16)
    train (/job/train.py:27)"""
    assert what_of(idle, trains).where == Where("/job/train.py", 16, "relabel")
    assert what_of(idle).what == "actor-idle"


def test_a_main_thread_that_polls_gives_way_to_the_thread_that_trains() -> None:
    trainer = "trainer | backward (torch/autograd/__init__.py:395) | train (train.py:34) | run (threading.py:982)"
    activity = what_of("MainThread | main (train.py:46) | <module> (train.py:50)", trainer)
    assert (activity.what, activity.where) == ("backward", Where("train.py", 34, "train"))
    busy = what_of("MainThread | save (torch/serialization.py:967) | main (train.py:46)", trainer)
    assert busy.what == "torch-save"


def test_a_main_thread_that_polls_after_its_trainer_died_stands_for_the_rank() -> None:
    activity = what_of(
        "MainThread | main (train.py:46) | <module> (train.py:50)",
        "QueueFeederThread | Condition.wait (threading.py:327) | Queue._feed (multiprocessing/queues.py:231)",
    )
    assert activity.where == Where("train.py", 46, "main")


def test_a_writer_thread_does_not_stand_for_the_rank() -> None:
    dump = dump_of(
        "writer | add_scalar (torch/utils/tensorboard/writer.py:380) | loop (train.py:70) | run (threading.py:9)",
        "MainThread | g (train.py:5) | <module> (train.py:50)",
        "QueueFeederThread | Condition.wait (threading.py:327) | Queue._feed (multiprocessing/queues.py:231)",
    )
    activity, others = activity_of(dump, {})
    assert activity is not None
    assert activity.where == Where("train.py", 5, "g")
    assert [(other.what, other.phase) for other in others] == [("tensorboard", Phase.LOG)]


def test_a_hook_in_a_thread_of_autograd_takes_the_line_that_asked_for_backward() -> None:
    activity = what_of(
        "MainThread | _engine_run_backward (torch/autograd/graph.py:979) | main (train.py:19) | <module> (train.py:50)",
        "Dummy-1 | all_reduce (torch/distributed/distributed_c10d.py:3000) | _reduce_grad (torch/fsdp/x.py:8)",
    )
    assert (activity.what, activity.operation) == ("collective", "all_reduce")
    assert activity.where == Where("train.py", 19, "main")
    assert "main (train.py:19)" in activity.evidence.text


BARRIER = (
    "barrier (torch/distributed/distributed_c10d.py:5356) | "
    "_exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)"
)
DDP = (
    "DistributedDataParallel.forward (torch/nn/parallel/distributed.py:1700) | "
    "Module._call_impl (torch/nn/modules/module.py:1884)"
)
SHAPES = {
    "barrier": (f"{BARRIER} | main (train.py:3)", "collective", "barrier"),
    "barrier of accelerate": (
        f"{BARRIER} | PartialState.wait_for_everyone (accelerate/state.py:404)",
        "collective",
        "barrier",
    ),
    "old names without classes": (
        "all_gather (torch/distributed/distributed_c10d.py:2000) | main (train.py:3)",
        "collective",
        "all_gather",
    ),
    "user code inside DDP forward": (f"forward (net.py:7) | {DDP} | main (train.py:3)", "forward", None),
    "buffers at a DDP forward": (
        f"_sync_buffers (torch/nn/parallel/distributed.py:2200) | {DDP}",
        "collective",
        "broadcast",
    ),
    "FSDP unshard": (
        (
            "all_gather_into_tensor (torch/distributed/distributed_c10d.py:3) | "
            "foreach_all_gather (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py:3)"
        ),
        "collective",
        "all_gather_into_tensor",
    ),
    "lock below a loader": (
        (
            "Condition.wait (threading.py:327) | "
            "Queue.get (queue.py:180) | "
            "_try_get_data (torch/utils/data/dataloader.py:9) | "
            "main (train.py:1)"
        ),
        "dataloader-wait",
        None,
    ),
    "lock of the user": (
        "Condition.wait (threading.py:327) | Event.wait (threading.py:629) | main (train.py:1)",
        "lock-wait",
        None,
    ),
    "dataset in the rank itself": (
        (
            "get (data.py:4) | "
            "fetch (torch/utils/data/_utils/fetch.py:54) | "
            "_next_data (torch/utils/data/dataloader.py:790) | "
            "main (train.py:1)"
        ),
        "dataset-item",
        None,
    ),
    "tokenizer in a map": (
        (
            "tokenize (my.py:3) | "
            "apply_function (datasets/arrow_dataset.py:3) | "
            "map (datasets/arrow_dataset.py:9) | "
            "main (train.py:1)"
        ),
        "dataset-map",
        None,
    ),
    "tokenizer": (
        "_batch_encode_plus (transformers/tokenization_utils_fast.py:552) | prepare (train.py:1)",
        "tokenize",
        None,
    ),
    "save of a trainer": (
        "save (torch/serialization.py:967) | _save_checkpoint (transformers/trainer.py:3090) | main (train.py:1)",
        "torch-save",
        None,
    ),
    "barrier inside a save": (
        f"{BARRIER} | save_state (accelerate/accelerator.py:3000) | main (train.py:1)",
        "collective",
        "barrier",
    ),
    "evaluation": (
        "f (train.py:3) | evaluation_loop (transformers/trainer.py:4300) | main (train.py:1)",
        "evaluate",
        None,
    ),
    "W&B": ("_wait (wandb/sdk/lib/mailbox.py:3) | log (wandb/sdk/wandb_run.py:3) | main (train.py:1)", "wandb", None),
    "download": (
        (
            "SSLSocket.read (ssl.py:1100) | "
            "readinto (socket.py:706) | "
            "http_get (huggingface_hub/file_download.py:420) | "
            "main (train.py:1)"
        ),
        "download",
        None,
    ),
    "request": ("readinto (socket.py:706) | urlopen (urllib/request.py:216) | main (train.py:1)", "http", None),
    "subprocess": ("Popen._try_wait (subprocess.py:2004) | main (train.py:1)", "subprocess", None),
    "compilation": (
        "wait (concurrent/futures/_base.py:1) | wait (torch/_inductor/async_compile.py:300) | main (train.py:1)",
        "compile",
        None,
    ),
    "teardown": (
        f"{BARRIER} | destroy_process_group (torch/distributed/distributed_c10d.py:2300) | main (train.py:1)",
        "teardown",
        None,
    ),
    "start": (
        f"{BARRIER} | init_process_group (torch/distributed/distributed_c10d.py:1750) | main (train.py:1)",
        "init-process-group",
        None,
    ),
    "rendezvous": (
        (
            "_create_c10d_store (torch/distributed/rendezvous.py:200) | "
            "init_process_group (torch/distributed/distributed_c10d.py:1) | "
            "main (train.py:1)"
        ),
        "init-process-group",
        None,
    ),
    "exit": ("_shutdown (threading.py:1583)", "interpreter-exit", None),
    "file lock": ("BaseFileLock.acquire (filelock/_api.py:332) | main (train.py:1)", "file-lock", None),
    "import": (
        (
            "get_code (<frozen importlib._bootstrap_external>:3) | "
            "_find_and_load (<frozen importlib._bootstrap>:1) | "
            "main (train.py:1)"
        ),
        "import",
        None,
    ),
    "program run by an import": (
        "f (train.py:3) | _find_and_load (<frozen importlib._bootstrap>:1) | <module> (start.py:1)",
        "user-code",
        None,
    ),
    "nothing but user code": ("f (train.py:3) | main (train.py:9)", "user-code", None),
    "user names that look alike": ("all_reduce (train.py:3) | barrier (sync/distributed_c10d.py:9)", "user-code", None),
    "only natives": ("spin (libmine.so)", "native", None),
    "sleep with natives": (
        "clock_nanosleep (libc.so.6) | time_sleep (libpython3.11.so.1.0) | main (train.py:9)",
        "sleep",
        None,
    ),
    "waits for the interpreter lock": (
        "pthread_cond_timedwait (libc.so.6) | take_gil (libpython3.11.so.1.0) | main (train.py:9)",
        "gil-wait",
        None,
    ),
    "nccl with natives": (
        (
            "ncclAllReduce (libnccl.so.2) | "
            "c10d::ProcessGroupNCCL::allreduce (libtorch_cuda.so) | "
            "all_reduce (torch/distributed/distributed_c10d.py:3) | "
            "main (train.py:9)"
        ),
        "collective",
        "all_reduce",
    ),
    "communicator made on first use": (
        (
            "ncclCommInitRankConfig (libnccl.so.2) | "
            "broadcast (torch/distributed/distributed_c10d.py:3) | "
            "main (train.py:9)"
        ),
        "communicator-init",
        "broadcast",
    ),
    "device": ("cudaStreamSynchronize (libcudart.so.12) | main (train.py:9)", "device-sync", None),
    "breakpoint": ("interaction (pdb.py:366) | main (train.py:9)", "debugger", None),
    "plain words of a text": ("findall (re/__init__.py:216) | count (train.py:9)", "regex", None),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    frames, what, operation = SHAPES[name]
    activity = what_of(f"MainThread | {frames}")
    assert (activity.what, activity.operation) == (what, operation)


PROGRAM = """\
import ctypes, time
import torch.distributed as dist
def main():
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    time.sleep(5)
    value = loss.item()
    lib = ctypes.PyDLL("libmine.so")
    lib.spin(10)
    model(x)
    done = [
        lock.acquire(
            timeout=3,
        )
    ]
    proc.wait()
main()
"""


@pytest.mark.parametrize(
    ("line", "what", "operation"),
    [
        (5, "collective", "all_reduce"),
        (6, "sleep", None),
        (7, "device-sync", None),
        (9, "native", None),
        (10, "user-code", None),
        (13, "lock-wait", None),
    ],
)
def test_the_users_line_names_a_call_that_leaves_no_frame(line: int, what: str, operation: str | None) -> None:
    activity = what_of(f"MainThread | main (train.py:{line}) | <module> (train.py:17)", program=PROGRAM)
    assert (activity.what, activity.operation) == (what, operation)
    assert activity.context is not CodeContext.NO_SOURCE


def test_a_native_wait_takes_the_operation_from_the_source() -> None:
    frames = "c10d::Work::wait (libtorch_cpu.so) | main (train.py:5) | <module> (train.py:17)"
    assert what_of(f"MainThread | {frames}").operation == "wait"
    assert what_of(f"MainThread | {frames}", program=PROGRAM).operation == "all_reduce"


def test_a_call_that_holds_the_interpreter_lock_is_native() -> None:
    text = 'Process 10: x\n\nThread 10 (active+gil): "MainThread"\n    main (train.py:10)\n    <module> (train.py:17)\n'
    (dump,) = read_stacks(text.encode(), source="x", rank=0)
    activity, _ = activity_of(dump, {"train.py": SourceFile(Source("train.py"), "train.py", PROGRAM)})
    assert activity is not None
    assert activity.what == "native"
    assert activity.thread is not None
    assert activity.thread.holds_gil


def test_a_forked_rank_leaves_the_frames_of_its_parent_out() -> None:
    activity = what_of(
        "MainThread | step (train.py:3) | worker (train.py:9) | BaseProcess.run (multiprocessing/process.py:108) | "
        "BaseProcess._bootstrap (multiprocessing/process.py:314) | Popen._launch (multiprocessing/popen_fork.py:71) | "
        "_get_iterator (torch/utils/data/dataloader.py:438) | launch (start.py:4)"
    )
    assert activity.what == "user-code"
    assert activity.where == Where("train.py", 3, "step")
    assert activity.frames[-1].function == "BaseProcess._bootstrap"


def test_a_process_that_only_starts_others_is_a_launcher() -> None:
    activity = what_of(
        "MainThread | SimpleElasticAgent._invoke_run (torch/distributed/elastic/agent/server/api.py:923) | "
        "run (torch/distributed/run.py:1019) | <module> (torchrun:8)"
    )
    assert (activity.what, activity.where) == ("launcher", None)


def test_a_dump_without_frames_has_no_activity() -> None:
    (dump,) = read_stacks(b"", source="x", rank=0)
    assert activity_of(dump, {}) == (None, ())


def test_kept_source_decides_what_is_the_users() -> None:
    frame = Frame("f", "queue.py", 3)
    assert not is_user_frame(frame)
    assert is_user_frame(frame, {"/job/queue.py": SourceFile(Source("queue.py"), "/job/queue.py", "x = 1\n")})
    assert not is_user_frame(Frame("f", "train.py", None, native=True))


def test_where_falls_back_to_an_installed_program() -> None:
    installed = Frame("run", "/venv/lib/python3.11/site-packages/mytrainer/run.py", 5)
    torch = Frame("step", "/venv/lib/python3.11/site-packages/torch/optim/adam.py", 4)
    assert first_user_frame([torch, installed]) == Where(installed.file, 5, "run")
    assert first_user_frame([torch]) is None


def test_the_order_of_threads_does_not_matter() -> None:
    threads = [
        JOIN,
        "trainer | f (train.py:9) | run (train.py:12) | Thread.run (threading.py:982)",
        "log | add_scalar (torch/utils/tensorboard/writer.py:380) | loop (train.py:70) | run (threading.py:9)",
    ]
    first = what_of(*threads)
    second = what_of(*reversed(threads))
    assert (first.what, first.where) == (second.what, second.where)
