"""A whole job under torchrun with everything of its own behaves as without us, in the launcher and in the ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.watch.signal_programs import ours

pytestmark = [pytest.mark.job, pytest.mark.timeout(240)]

SITE = """
import atexit, faulthandler, os, signal, sys, threading
launcher = sys.orig_argv[1:3] == ["-m", "torch.distributed.run"]
kind = "launcher" if launcher else f"rank-{os.environ['RANK']}" if "RANK" in os.environ else "other"
loaded = "-c" in sys.orig_argv  # children of the ranks, and what starts with the interpreter for us
def note(text):
    with open(f"{os.environ['NOTES']}/{kind}", "a") as file: file.write(text + "\\n")
def mine(kind_, value, trace): note(f"excepthook {kind_.__name__} {value}"); sys.__excepthook__(kind_, value, trace)
def mine_too(args): note(f"thread hook {args.exc_type.__name__}")
sys.excepthook, threading.excepthook = mine, mine_too
if not loaded:
    note(f"site {__name__} {sys.path[1:3]} {faulthandler.is_enabled()}")
    def end():
        note(f"end {signal.getsignal(signal.SIGTERM)} {sys.excepthook is mine} {faulthandler.is_enabled()}")
        note(f"{[thread.name for thread in threading.enumerate()]} {sorted(signal.pthread_sigmask(0, []))}")
    atexit.register(end)
"""
JOB = """
import faulthandler, os, signal, subprocess, sys, threading, time
import torch, torch.distributed as dist
from sitecustomize import note
import helper_of_mine
rank = int(os.environ["RANK"])
heard = []
for name in ("SIGUSR1", "SIGHUP", "SIGALRM"):
    signal.signal(getattr(signal, name), lambda number, frame: heard.append(number))
traces = open(f"{os.environ['NOTES']}/traces-{rank}", "w")
faulthandler.enable(traces)
faulthandler.register(signal.SIGUSR2, traces, all_threads=False)
dist.init_process_group("gloo")
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, at): return at + len(os.environ["PYTHONPATH"].split(":")[-1:]) - 1
loader = torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=20 if rank == 0 else 1)
total = torch.tensor(sum(int(batch.sum()) for batch in loader)); dist.all_reduce(total); note(f"sum {total}")
for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2): os.kill(os.getpid(), number); time.sleep(0.05)
note(f"heard {heard}")
def ran(*words, **how): return subprocess.run([sys.executable, *words], capture_output=True, text=True, **how).stdout
show = "import sys, os; print([p for p in sys.path if 'mine' in p or 'other' in p], 'sitecustomize' in sys.modules)"
for flags in ([], ["-E"], ["-I"], ["-S"]):
    note(f"{flags} {ran(*flags, '-c', show)}")
note(ran("-c", "import sys; print('' in sys.path)", env={**os.environ, "PYTHONSAFEPATH": "1"}))
os.environ["PYTHONPATH"] = os.environ["OTHER"]
note(ran("-c", show))
thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()
dist.barrier()
if rank == 1: raise ValueError("of mine")
time.sleep(60)
"""


def steady(text: str) -> str:
    """Without what changes from run to run: addresses, process ids, times."""
    return re.sub(r"0x[0-9a-f]+|\d+", "N", text)


def test_everything_of_its_own(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
        (folder / "helper_of_mine.py").write_text("")
    (mine / "sitecustomize.py").write_text(SITE)
    (tmp_path / "job.py").write_text(JOB)
    told = []
    for name, folder in (("without", None), ("with", tmp_path / "run")):
        notes = tmp_path / name
        notes.mkdir()
        environment = os.environ | {"PYTHONPATH": str(mine), "NOTES": str(notes), "OTHER": str(other)}
        environment |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONFAULTHANDLER": "1"}
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        words = [*ours(folder), *words, str(tmp_path / "job.py")]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=110, check=False)
        told.append((done.returncode, {path.name: steady(path.read_text()) for path in notes.glob("*-*")}))
        told[-1][1]["launcher"] = steady((notes / "launcher").read_text())

    assert told[0] == told[1]
    assert told[0][0] == 1
    assert sorted(told[0][1]) == ["launcher", "rank-0", "rank-1", "traces-0", "traces-1"]
    assert "excepthook ValueError of mine" in told[1][1]["rank-1"]
    assert "thread hook ZeroDivisionError" in told[1][1]["rank-0"]
    assert "heard [N, N]" in told[1][1]["rank-0"]
