"""A rank behaves as without us: each program runs twice, and exit code and output are compared."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch

from tests.inprocess.installed import Installed
from tests.inprocess.programs import Folders, Ran, base_environment, one_rank, run_python, with_and_without

pytestmark = [pytest.mark.job, pytest.mark.timeout(180)]

BEGIN = """
import faulthandler, os, signal, sys, threading, time
import torch, torch.distributed as dist
def crash(): os.kill(os.getpid(), signal.SIGSEGV); time.sleep(30)
def armed():
    # what takes longest to get there; without us there is nothing to wait for
    folder, until = os.environ.get("UNHANG_RUN"), time.monotonic() + 20
    while folder and not any(name.endswith(".rec") for name in os.listdir(folder)): time.sleep(0.01)
    kept = os.path.join(os.environ.get("UNHANG_RUN_DIR", ""), "crash", "rank_" + os.environ.get("RANK", "0"))
    while folder and not os.path.exists(kept + ".faulthandler") and time.monotonic() < until: time.sleep(0.01)
    if folder: time.sleep(0.3)
def beaten(done):
    # until the record of this rank says so; without us there is nothing to wait for
    folder, until = os.environ.get("UNHANG_RUN"), time.monotonic() + 60
    if not folder or not os.path.isdir(folder): return
    from pathlib import Path
    from unhang.wire.record import read_records
    while not any(map(done, read_records(Path(folder)).values())) and time.monotonic() < until: time.sleep(0.05)
"""
INIT = """
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3))
armed()
"""


def both(program: str, folders: Folders, tmp_path: Path, *, init: bool = True, **more: str) -> tuple[Ran, Ran]:
    """``program`` without us and with us; ``INIT`` stands where the program says so, else before it."""
    path = tmp_path / "train.py"
    path.write_text(BEGIN + (program.replace("INIT", INIT) if "INIT" in program else (INIT if init else "") + program))
    without, with_us = with_and_without([str(path)], folders, **one_rank(), **more)
    return without, with_us


def same(program: str, folders: Folders, tmp_path: Path, **more: str) -> Ran:
    without, with_us = both(program, folders, tmp_path, **more)
    assert without.same == with_us.same
    assert folders.views()
    assert folders.troubles() == {}
    return with_us


def crash_file(folders: Folders, ending: str) -> Path:
    return folders.run / "crash" / f"rank_0.{ending}"


def test_what_a_program_can_see_of_its_own_process(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        """
import inspect, pickle, multiprocessing
ours = {"UNHANG_RUN", "UNHANG_RUN_DIR", "PYTHONPATH"}
print(sorted(set(os.environ.items()) - {(k, v) for k, v in os.environ.items() if k in ours or "PORT" in k}))
print(sys.path, threading.enumerate(), threading.active_count(), multiprocessing.active_children())
print([signal.getsignal(number) for number in signal.valid_signals() if number not in (4, 6, 7, 8, 11)])
print(faulthandler.is_enabled(), sys.meta_path, sys.path_hooks, sys.getswitchinterval(), sys.gettrace(),
      sys.getprofile(), threading.gettrace(), threading.getprofile())
print(inspect.signature(dist.init_process_group), dist.init_process_group.__name__,
      dist.init_process_group.__doc__[:60], dist.init_process_group.__module__)
print(pickle.loads(pickle.dumps(dist.init_process_group)) is dist.init_process_group)
print(len(inspect.getsource(dist.distributed_c10d)), vars(dist.distributed_c10d.__spec__.loader))
print(sorted(number for number in map(int, os.listdir("/proc/self/fd")) if number < 800))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), torch.initial_seed() != 0, os.getpriority(os.PRIO_PROCESS, 0))
""",
        folders,
        tmp_path,
    )

    assert ran.code == 0
    assert not (folders.run / "crash").exists() or not list((folders.run / "crash").iterdir())


def test_an_exception_nobody_catches(folders: Folders, tmp_path: Path) -> None:
    ran = same("def train(): raise ValueError('no such\\nluck')\ntrain()", folders, tmp_path)

    assert ran.code == 1
    noted = crash_file(folders, "except").read_text()
    assert noted.count("\n") == 1
    assert '"ValueError", "message": "no such\\nluck"' in noted
    assert f'"file": "{tmp_path / "train.py"}"' in noted
    assert '"function": "train"' in noted


def test_the_users_excepthooks(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        """
def hook(*words): print("mine", words[0].__name__, words[1], flush=True)
def thread_hook(args): print("thread", args.exc_type.__name__, args.thread.name, flush=True)
sys.excepthook, threading.excepthook = hook, thread_hook
INIT
def work(): raise KeyError("in a thread")
thread = threading.Thread(target=work, name="loader"); thread.start(); thread.join()
raise OSError("in the end")
""",
        folders,
        tmp_path,
    )

    assert "mine OSError" in ran.out
    assert "thread KeyError loader" in ran.out
    assert crash_file(folders, "except").read_text().count("\n") == 2


def test_excepthooks_the_user_sets_later(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        """
before = sys.excepthook
def hook(*words): print("mine", words[0].__name__, flush=True); before(*words)
sys.excepthook = hook
def thread_hook(args): print("thread", args.exc_type.__name__, flush=True)
threading.excepthook = thread_hook
thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()
raise OSError("in the end")
""",
        folders,
        tmp_path,
    )

    assert "mine OSError" in ran.out


@pytest.mark.parametrize("how", ["sys.exit(7)", "os._exit(5)", "raise KeyboardInterrupt", "os.abort()", "crash()"])
def test_every_way_to_end(how: str, folders: Folders, tmp_path: Path) -> None:
    ran = same(how, folders, tmp_path)

    assert ran.code in (7, 5, -signal.SIGINT, -signal.SIGABRT, -signal.SIGSEGV)
    if how in ("os.abort()", "crash()"):
        written = crash_file(folders, "faulthandler").read_text()
        assert "Fatal Python error" in written
        assert "train.py" in written


def test_the_users_faulthandler_set_before(folders: Folders, tmp_path: Path) -> None:
    ran = same("faulthandler.enable()\nINIT\ncrash()", folders, tmp_path)

    assert "Fatal Python error: Segmentation fault" in ran.err
    assert not crash_file(folders, "faulthandler").read_text()


@pytest.mark.parametrize("setting", [{"PYTHONFAULTHANDLER": "1"}, {}])
def test_the_users_faulthandler_set_later_or_from_outside(
    setting: dict[str, str], folders: Folders, tmp_path: Path
) -> None:
    program = "crash()" if setting else "if not faulthandler.is_enabled(): faulthandler.enable()\ncrash()"

    ran = same(program, folders, tmp_path, **setting)

    assert "Fatal Python error: Segmentation fault" in ran.err


def test_the_users_faulthandler_timer(folders: Folders, tmp_path: Path) -> None:
    program = "faulthandler.dump_traceback_later(6)\nINIT\ntime.sleep(8)\nprint('through')"

    ran = same(program, folders, tmp_path)

    assert ran.err.count("Timeout (") == 1


def test_the_users_signal_handlers(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        """
import contextlib
seen = []
sys.stdout.reconfigure(line_buffering=True)
for name in ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGHUP"):
    signal.signal(getattr(signal, name), lambda number, frame: seen.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.5)
signal.pause(); print("woken")
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
    os.kill(os.getpid(), number)
print(seen, signal.getsignal(signal.SIGINT))
class Late(Exception): pass
def late(number, frame): raise Late
signal.signal(signal.SIGALRM, late); signal.setitimer(signal.ITIMER_REAL, 0.2)
with contextlib.suppress(Late): time.sleep(50); print("slept")
signal.signal(signal.SIGTERM, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGTERM); time.sleep(50)
""",
        folders,
        tmp_path,
    )

    assert ran.code == -signal.SIGTERM
    assert ran.out.startswith("woken\n")
    assert "slept" not in ran.out


def test_children_of_every_kind(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        """
import subprocess, multiprocessing
dist.destroy_process_group()  # a forked child of a process with a Gloo group never ends in order, without us too
for end in ("sys.exit(3)", "os._exit(4)", "raise ValueError('child')", "os.abort()"):
    child = os.fork()
    if child == 0: exec(end)
    print(end, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(subprocess.run([sys.executable, "-c", "import os; print(os.environ['RANK'])"], capture_output=True).stdout)
print(subprocess.run(["sh", "-c", "exit 9"], preexec_fn=lambda: None).returncode)
with multiprocessing.get_context("fork").Pool(2) as pool: print(os.system("exit 2"), pool.map(abs, [-1, -2]))
""",
        folders,
        tmp_path,
    )

    assert "sys.exit(3) 3" in ran.out
    assert len(folders.views()) == 1
    assert not crash_file(folders, "except").exists()
    assert not crash_file(folders, "faulthandler").exists()


WORKERS = """
import random
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, at):
        import os, sys, threading
        return at, os.getpid(), int("unhang.inprocess.session" in sys.modules), threading.active_count()
if __name__ == "__main__":
    INIT
    for method in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context=method)
        for at, pid, armed_there, threads in loader:
            print(method, at.tolist(), len(set(pid.tolist())), threads.tolist())
"""


def test_loader_workers_neither_arm_nor_write(folders: Folders, tmp_path: Path) -> None:
    program = WORKERS.replace("    INIT\n", "".join(f"    {line}\n" for line in INIT.strip().splitlines()))

    ran = same(program, folders, tmp_path, init=False)

    assert ran.code == 0, ran.err
    (view,) = folders.views()
    assert view.ended
    assert (
        len(folders.registrations()) >= 4
    )  # the rank, its spawned workers, their resource tracker: RANK makes no rank


def test_a_spawned_child_with_a_group_of_its_own_does_not_arm(folders: Folders, tmp_path: Path) -> None:
    """Asynchronous checkpoints are saved by a child that inherits RANK and calls init_process_group."""
    program = """
def save(port):
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", rank=0, world_size=1)
    dist.barrier(); print("saved", flush=True)
if __name__ == "__main__":
    dist.init_process_group("gloo"); dist.barrier(); armed()
    import torch.multiprocessing as mp
    import socket
    with socket.socket() as free: free.bind(("127.0.0.1", 0)); port = str(free.getsockname()[1])
    for method, target, words in (("spawn", save, (port,)), ("fork", os.getpid, ())):
        child = mp.get_context(method).Process(target=target, args=words)
        child.start(); child.join(); print(child.exitcode)
"""

    ran = same(program, folders, tmp_path, init=False)

    assert "saved\n0\n0\n" in ran.out


def test_ranks_that_are_spawned_by_the_program_do_arm(folders: Folders, tmp_path: Path) -> None:
    program = """
def main(rank, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", port
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.barrier(); armed(); dist.destroy_process_group()
if __name__ == "__main__":
    import torch.multiprocessing as mp
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"): del os.environ[name]
    mp.spawn(main, args=(os.environ["MASTER_PORT"],), nprocs=2)
"""

    without, with_us = both(program, folders, tmp_path, init=False)

    assert without.same == with_us.same
    assert with_us.code == 0, with_us.err
    assert sorted((view.identity.rank, view.identity.world_size) for view in folders.views()) == [(0, 2), (1, 2)]


def test_a_program_that_replaces_itself_arms_again(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        """
if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], "again"])
print("again", faulthandler.is_enabled())
""",
        folders,
        tmp_path,
    )

    assert "again False" in ran.out
    assert folders.view().beats > 0


def test_a_program_that_closes_every_file(folders: Folders, tmp_path: Path) -> None:
    """Ours among them; a later file with the same number is not written to."""
    same(
        """
os.closerange(3, 4096)
mine = [open(f"{os.path.dirname(os.path.abspath(__file__))}/mine{n}", "w+") for n in range(950)]
time.sleep(2.2)
print([file.read() for file in mine if file.read()])
os.kill(os.getpid(), signal.SIGABRT)
""",
        folders,
        tmp_path,
    )

    assert {path.read_text() for path in tmp_path.glob("mine*")} == {""}


def test_few_files_allowed(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\nINIT\nprint('fine')", folders, tmp_path
    )

    assert ran.out == "fine\n"


@pytest.mark.parametrize("folder", ["run", "records"])
def test_a_folder_that_is_missing(folder: str, folders: Folders, tmp_path: Path) -> None:
    other = Folders(tmp_path / "no" / "records", folders.run) if folder == "records" else folders
    if folder == "run":
        other = Folders(folders.records, Path("/proc/nothing"))

    without, with_us = both("print('fine')", other, tmp_path, init=False)
    assert without.same == with_us.same

    path = tmp_path / "train.py"
    path.write_text(
        BEGIN + "dist.init_process_group('gloo'); dist.barrier(); beaten(lambda view: view.beats > 1); print('fine')"
    )
    without, with_us = with_and_without([str(path)], other, **one_rank())
    assert without.same == with_us.same
    if folder == "run":
        assert "no evidence of a crash" in str(folders.troubles())
        assert folders.view().beats > 1


def test_init_that_fails_and_init_again(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        """
try: dist.init_process_group("no such backend")
except Exception as error: print(type(error).__name__, error)
INIT
try: dist.init_process_group("gloo")
except Exception as error: print(type(error).__name__, error)
dist.destroy_process_group()
os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
dist.init_process_group("gloo"); dist.all_reduce(torch.ones(1)); dist.all_reduce(torch.ones(1))
beaten(lambda view: [group.completed for group in view.groups] == [2])
os._exit(0)
""",
        folders,
        tmp_path,
    )

    assert ran.code == 0
    (group,) = folders.view().groups
    assert (group.name, group.enqueued, group.completed) == ("0", 2, 2)


def test_torch_compile_traces_as_without_us(folders: Folders, tmp_path: Path) -> None:
    ran = same(
        """
import torch._dynamo, torch._dynamo.testing
counter = torch._dynamo.testing.CompileCounter()
@torch.compile(backend=counter, fullgraph=True)
def double(x): return x * 2 + 1
print(double(torch.ones(2)), counter.frame_count)
""",
        folders,
        tmp_path,
    )

    assert "1" in ran.out


def test_nothing_of_ours_is_left_when_undone(folders: Folders, tmp_path: Path) -> None:
    program = """
if "UNHANG_RUN" in os.environ:
    from unhang.inprocess import patched_functions as targets
    for owner, name, _ in targets.TARGETS: assert hasattr(getattr(sys.modules[owner], name), "__wrapped__"), name
    assert dist.init_process_group is dist.distributed_c10d.init_process_group
    targets.restore_originals()
print([getattr(function, "__code__", None) for function in (
    faulthandler.enable, faulthandler.disable, faulthandler.is_enabled, dist.init_process_group,
    dist.distributed_c10d._new_process_group_helper)])
"""

    same(program, folders, tmp_path)


def test_a_job_whose_script_sets_pythonpath_is_watched(folders: Folders, tmp_path: Path) -> None:
    """Where PYTHONPATH is not ours, but unhang is installed beside torch."""
    installed = Installed(tmp_path / "venv")
    (installed.site / "with_torch.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    path = tmp_path / "train.py"
    path.write_text(
        BEGIN
        + INIT
        + "from torch.distributed import new_group\ndist.barrier(new_group([0]))\n"
        + "beaten(lambda view: len(view.groups) == 2)\nos._exit(0)"
    )
    environment = {**folders.environment(base_environment(**one_rank())), "PYTHONPATH": "/my/code"}

    ran = run_python([str(path)], environment, python=installed.python)

    assert ran.code == 0, ran.err
    assert [registration.entered_by for registration in folders.registrations()] == ["site"]
    assert [group.name for group in folders.view().groups] == ["0", "1"]
