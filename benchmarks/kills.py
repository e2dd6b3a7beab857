"""What SIGKILLs of our own processes do to a job: nothing, or this prints what.

    python -m benchmarks kills [--kills 100] [--fronts 20] [--seed N]     25 minutes on 2 busy cores

A job of two ranks trains for a fixed number of steps and writes down its losses and a hash of its weights. It runs
once without us. Then it runs under ``unhang run`` again and again while our watcher, its looks and py-spy are killed at
random moments; one rank is stopped and continued, and at times holds the interpreter lock, so that there are looks to
kill. Then it runs while the front process is killed. Every time losses, hash and exit code must be those of the first
run, no rank may be left stopped, and nothing may stay in shared memory.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from unhang.watch.job import job_processes
from unhang.watch.launch.job_environment import RECORDS_VARIABLE
from unhang.watch.launch.records_folder import SHARED_MEMORY
from unhang.watch.process_state.proc_processes import state_of

STEPS, FEW_STEPS = 400, 100
LIMIT_S = 180.0
KINDS = ("watcher", "look", "py-spy")
WAIT_S = {"watcher": 4.0, "look": 12.0, "py-spy": 12.0}
"""How long to wait for one of a kind to turn up."""
SPREAD_S = {"watcher": 0.6, "look": 0.5, "py-spy": 0.06}
"""From its turning up to its kill, at most: about as long as one lives."""

TRAIN = """
import ctypes, hashlib, sys, time
import torch, torch.distributed as dist
steps, held, results = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.manual_seed(7); torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = torch.Generator().manual_seed(rank)
with open(f"{results}/pid-{rank}", "w") as file:
    import os; file.write(str(os.getpid()))
with open(f"{results}/rank-{rank}", "w") as file:
    for step in range(steps):
        x = torch.randn(16, 32, generator=batches)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad(); loss.backward()
        for p in model.parameters(): dist.all_reduce(p.grad); p.grad /= 2
        optimizer.step(); time.sleep(0.015)
        if rank == 1 and held and step % held == held - 1:
            ctypes.PyDLL(None).usleep(3_500_000)  # a PyDLL does not give the interpreter lock back
        print(step, f"{loss.item():.9g}", file=file, flush=True)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("weights", hashlib.sha256(weights).hexdigest(), file=file, flush=True)
dist.barrier()  # torchrun ends the others as soon as one has failed
dist.destroy_process_group()
sys.exit(7 if rank == 0 else 0)
"""


@dataclass
class Job:
    """One run of the job. ``command``: the front process, or the launcher where there is none."""

    place: Path
    command: subprocess.Popen[bytes]
    folder: Path | None = None
    kills: collections.Counter[str] = field(default_factory=collections.Counter)

    @classmethod
    def start(cls, place: Path, steps: int, *, watched: bool, held: int = 0) -> Job:
        """Start it in ``place``."""
        place.mkdir()
        (place / "train.py").write_text(TRAIN)
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        words += [str(place / "train.py"), str(steps), str(held), str(place)]
        folder = place / "run" if watched else None
        if watched:
            ours = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run", "--dir", str(folder), "--"]
            words = ours + words
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
        with (place / "output").open("wb") as output:
            command = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment)
        return cls(place, command, folder)

    def results(self) -> str:
        """Losses and hash of both ranks."""
        return "".join(path.read_text() for path in sorted(self.place.glob("rank-*")))

    def ranks(self) -> list[int]:
        """Process ids of the ranks, once both train."""
        found = []
        for path in sorted(self.place.glob("pid-*")):
            with suppress(OSError, ValueError):
                found.append(int(path.read_text()))
        return found if len(found) == 2 else []

    def living(self) -> bool:
        """Whether the command runs."""
        return self.command.poll() is None

    def ours(self, kind: str) -> list[int]:
        """Our processes of one kind that live now."""
        return [pid for pid, found in self._ours() if found == kind]

    def _ours(self) -> Iterator[tuple[int, str]]:
        assert self.folder is not None
        mark, ranks = os.fsencode(self.folder), {str(pid).encode() for pid in self.ranks()}
        for path in Path("/proc").iterdir():
            if not path.name.isdigit():
                continue
            with suppress(OSError, IndexError, ValueError):
                words = (path / "cmdline").read_bytes().split(b"\0")
                if b"unhang.watch.watcher" in words and mark in words:
                    group = os.getpgid(int(path.name))
                    parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
                    look = b"unhang.watch.watcher" in Path(f"/proc/{parent}/cmdline").read_bytes()
                    yield int(path.name), "look" if look and group == int(path.name) else "watcher"
                elif words[0].endswith(b"py-spy") and ranks & set(words):
                    yield int(path.name), "py-spy"


def kill_one(job: Job, kind: str, chance: random.Random) -> bool:
    """Wait for a process of ``kind`` and kill it a random moment later."""
    deadline = time.monotonic() + WAIT_S[kind]
    while time.monotonic() < deadline and job.living():
        if job.ours(kind):
            time.sleep(chance.uniform(0, SPREAD_S[kind]))
            left = job.ours(kind)
            with suppress(ProcessLookupError, IndexError):
                os.kill(chance.choice(left), signal.SIGKILL)
                job.kills[kind] += 1
                return True
        time.sleep(0.005)
    return False


def killed_often(place: Path, steps: int, most: int, chance: random.Random) -> Job:
    """One job with up to ``most`` kills; rank 1 is stopped and continued all the while."""
    job = Job.start(place, steps, watched=True, held=steps // 3)
    deadline = time.monotonic() + LIMIT_S
    while not job.ranks() and job.living():
        time.sleep(0.1)
    while job.living() and time.monotonic() < deadline and sum(job.kills.values()) < most:
        time.sleep(chance.uniform(0.2, 1.5))
        kind = chance.choices(KINDS, (2, 3, 3))[0]
        stop = kind != "watcher" or chance.random() < 0.5
        _signal(job, signal.SIGSTOP if stop else signal.SIGCONT)
        kill_one(job, kind, chance)
        time.sleep(chance.uniform(0.0, 0.5))
        _signal(job, signal.SIGCONT)
    return job


def _signal(job: Job, number: int) -> None:
    with suppress(ProcessLookupError, IndexError):
        os.kill(job.ranks()[1], number)


def left_stopped(job: Job) -> list[int]:
    """Ranks in state T although nobody of us stops them any more, one second later."""
    time.sleep(1.0)
    return [pid for pid in job.ranks() if state_of(pid) == "T"]


def end(job: Job) -> int | None:
    """Wait for the command; None when it had to be ended."""
    try:
        return job.command.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        job.command.kill()
        job.command.wait()
        return None


def front_killed(place: Path, steps: int, chance: random.Random) -> tuple[int | None, Job]:
    """One job whose front process is killed at a random moment; the launcher's exit code comes to us."""
    job = Job.start(place, steps, watched=True)
    assert job.folder is not None
    time.sleep(chance.uniform(0.0, 6.0))
    deadline, pid = time.monotonic() + 20, 0
    while not pid and time.monotonic() < deadline:  # before the command is there is nothing that could go on
        children = Path(f"/proc/{job.command.pid}/task/{job.command.pid}/children")
        with suppress(OSError):
            pid = next((child for child in map(int, children.read_text().split()) if _is_launcher(child)), 0)
    job.command.kill()
    job.command.wait()
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        with suppress(ChildProcessError):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), job
        time.sleep(0.05)
    return None, job


def _is_launcher(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"torch.distributed.run" in words and b"unhang" not in b" ".join(words[:3])


def records_left(before: set[Path], limit_s: float = 20.0) -> list[str]:
    """What is new in shared memory after a while, and no live process uses."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        left = set(SHARED_MEMORY.glob(f"unhang-{os.getuid()}-*")) - before
        left = {path for path in left if not job_processes.processes_with_mark(f"{RECORDS_VARIABLE}={path}")}
        if not left:
            return []
        time.sleep(0.5)
    return sorted(map(str, left))


def main(given: Sequence[str] | None = None) -> int:
    """Run all of it; exit code 1 when anything differed."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--kills", type=int, default=100, help="SIGKILLs of watcher, looks and py-spy")
    words.add_argument("--fronts", type=int, default=20, help="SIGKILLs of the front process, each in a job of its own")
    words.add_argument("--a-job", type=int, default=12, help="kills in one job")
    words.add_argument("--seed", type=int, default=random.randrange(1000))
    asked = words.parse_args(given)
    chance = random.Random(asked.seed)
    print(f"seed {asked.seed}", flush=True)
    rows: list[tuple[str, str, str]] = []
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="kills-") as name, job_processes.adopting_orphans():
        place = Path(name)
        before = set(SHARED_MEMORY.glob(f"unhang-{os.getuid()}-*"))
        alike = {steps: _alone(place / f"alone-{steps}", steps) for steps in (STEPS, FEW_STEPS)}
        total: collections.Counter[str] = collections.Counter()
        jobs = 0
        while sum(total.values()) < asked.kills:
            jobs += 1
            most = min(asked.a_job, asked.kills - sum(total.values()))
            job = killed_often(place / f"job-{jobs}", STEPS, most, chance)
            stuck, code = left_stopped(job), end(job)
            total += job.kills
            faults = _faults(code, job, alike[STEPS]) + [f"rank process {pid} left stopped" for pid in stuck]
            wrong += bool(faults)
            print(f"job {jobs}: {dict(job.kills)}, exit {code}: {'; '.join(faults) or 'the same'}", flush=True)
            if not job.kills:
                print("nothing could be killed: no looks came about", flush=True)
                return 1
        rows.append((", ".join(f"{kind} {total[kind]}" for kind in KINDS), str(jobs), f"{wrong} differ"))
        different = 0
        for number in range(asked.fronts):
            code, job = front_killed(place / f"front-{number}", FEW_STEPS, chance)
            faults = _faults(code, job, alike[FEW_STEPS])
            different += bool(faults)
            print(f"front {number + 1}: exit {code}: {'; '.join(faults) or 'the same'}", flush=True)
        rows.append((f"front {asked.fronts}", str(asked.fronts), f"{different} differ"))
        left = records_left(before)
        print(f"\n{'killed':40} {'jobs':>5}  results, exit code")
        for killed, count, outcome in rows:
            print(f"{killed:40} {count:>5}  {outcome}")
        print(f"left in {SHARED_MEMORY}: {', '.join(left) or 'nothing'}")
    return int(wrong + different + len(left) > 0)


def _alone(place: Path, steps: int) -> tuple[int | None, str]:
    job = Job.start(place, steps, watched=False)
    code = end(job)
    assert code not in (0, None), (place / "output").read_text()[-2000:]
    assert job.results().count("weights") == 2
    return code, job.results()


def _faults(code: int | None, job: Job, alone: tuple[int | None, str]) -> list[str]:
    faults = [] if code == alone[0] else [f"exit code {code}, not {alone[0]}"]
    if job.results() != alone[1]:
        faults.append("losses or weights differ")
    return faults


if __name__ == "__main__":
    raise SystemExit(main())
