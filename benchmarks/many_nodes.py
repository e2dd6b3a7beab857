"""Many nodes under one leader: 10,000 ranks on 1,250 nodes that tell, wait and give evidence at the real pace.

    python -m benchmarks many-nodes [--nodes 125 1250] [--via folder store] [--processes 2] [--keep FILE]

Real: two nodes under ``unhang run`` (the first leads, the second follows) with their watchers and carriers, the place
where all meet (a folder in memory, or a store over loopback), every other node's connection, seals, digests, requests
and evidence, detection over all ranks, the verdict. Simulated: the ranks, and the watchers of the other nodes
(``simulated_nodes``), which share this machine's processors with the leader. Goals: no tick of the leader later than
1 s, and a verdict within 5 s of the stall.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from benchmarks.simulated_nodes import PER_NODE, Job
from unhang.watch.nodes.transport.mailbox import FOLDER, TransportState, state_mailbox

REAL = 2
WANTED_TICK_S = 0.25
STEPS_S = 20.0
"""The job moves for so long before it stalls."""
VERDICT_LIMIT_S = 40.0
READY_LIMIT_S = 240.0
TICKS = 1000 / os.sysconf("SC_CLK_TCK")
MAIN = "from unhang.cli.main import main; main()"


@dataclass(slots=True)
class Part:
    """A process beside the job: processor time in ms and bytes over the network, at two moments; most memory."""

    cpu_ms: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    mib: float = 0.0


@dataclass(slots=True)
class Measured:
    """One run."""

    nodes: int
    ranks: int
    via: str
    tick_ms: float
    latest_tick_ms: float
    """The longest time between two ticks, less the wanted one."""
    latest_after_s: float
    """When that was, after the stall; negative before it."""
    noticed_s: float | None
    verdict_s: float | None
    right: bool
    leader_cpu: float
    leader_cpu_stall: float
    leader_mib: float
    follower_cpu: float
    follower_mib: float
    leader_in: float
    follower_out: float
    follower_in: float
    follower_out_stall: float
    crowd_cpu: float
    crowd_late_s: float
    load: float


class Ticks:
    """When the leader's watcher told its carrier something: once a tick, seen from outside."""

    def __init__(self, records: Path) -> None:
        self._path = records / FOLDER / "errand"
        self._last = 0
        self.gaps: list[float] = []
        self.longest = (0.0, 0.0)
        """How long, and when it ended."""

    def look(self) -> None:
        """Often."""
        with suppress(OSError):
            at_ns = self._path.stat().st_mtime_ns
            if self._last and at_ns != self._last:
                self.gaps.append((at_ns - self._last) / 1e9)
                if self.gaps[-1] > self.longest[0]:
                    self.longest = (self.gaps[-1], time.monotonic())
            self._last = at_ns


def measure(nodes: int, via: str, processes: int, logs: Path | None = None) -> Measured:
    """One run with so many nodes."""
    with tempfile.TemporaryDirectory(prefix="unhang-many-", dir="/dev/shm") as folder, ExitStack() as stack:
        place = Path(folder)
        job = Job(folder, nodes, _via(via, place), nodes * PER_NODE * 9 // 10 + 5, "127.0.0.1", 29_500)
        job = replace(job, begin_s=time.monotonic())
        job.write()
        stack.callback(_keep_logs, place, logs)
        started = {}
        for number in range(REAL):
            log = place / f"h{number}.log"
            started[log] = stack.enter_context(_running(_real_node(job, number), log, UNHANG_NODE_NAME=f"h{number}"))
        ends = [REAL + (nodes - REAL) * at // processes for at in range(processes + 1)]
        for first, last in pairwise(ends):
            words = [sys.executable, "-m", "benchmarks.simulated_nodes", "nodes", str(job.path), str(first), str(last)]
            log = place / f"crowd-{first}.log"
            started[log] = stack.enter_context(_running(words, log))
        ready = [place / f"ready-{first}" for first in [*range(REAL), *ends[:-1]]]
        _wait_until(lambda: all(path.exists() for path in ready), started)
        real = [place / "run" / f"h{number}" for number in range(REAL)]
        records = [Path(json.loads((folder / "run.json").read_text())["records"]) for folder in real]
        _wait_until(lambda: _heard(records[0]) == nodes - 1, started)
        time.sleep(5.0)
        return _follow(job, via, real[0], records, ends)


def _keep_logs(place: Path, logs: Path | None) -> None:
    for path in (*place.glob("*.log"), *place.glob("run/h*/.unhang/*.log"), *place.glob("run/h*/verdict.json")):
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, logs / "-".join(path.relative_to(place).parts))


def _via(via: str, place: Path) -> str:
    if via == "store":
        return f"127.0.0.1:{21_000 + os.getpid() % 5_000}"
    (place / "meet").mkdir()
    return str(place / "meet")


def _real_node(job: Job, number: int) -> list[str]:
    """Its command."""
    place = Path(job.place)
    torchrun = place / f"bin{number}" / "torchrun"
    torchrun.parent.mkdir()
    torchrun.write_text(f"#!/bin/sh\nexec {sys.executable} -m benchmarks.simulated_nodes ranks {job.path} {number}\n")
    torchrun.chmod(0o755)
    words = [sys.executable, "-c", MAIN, "run", "--dir", str(place / "run"), "--nodes-via", job.via, "--"]
    words += [str(torchrun), f"--nnodes={job.nodes}", f"--node-rank={number}", f"--nproc-per-node={PER_NODE}"]
    return [*words, f"--master-addr={job.address}", f"--master-port={job.port}", "train.py"]


@contextmanager
def _running(words: Sequence[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until(there: Callable[[], bool], started: Mapping[Path, subprocess.Popen[bytes]]) -> None:
    """Raises ChildProcessError with the last line of a part that ended before."""
    deadline = time.monotonic() + READY_LIMIT_S
    while not there():
        for log, process in started.items():
            if process.poll() is not None:
                raise ChildProcessError(f"{log.name} ended: {log.read_text(errors='replace').strip()[-300:]}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not every node is there and heard after {READY_LIMIT_S:.0f} s")
        time.sleep(0.2)


def _follow(job: Job, via: str, real: Path, records: list[Path], ends: list[int]) -> Measured:
    parts = [Part(), Part()]
    ticks = Ticks(records[0])
    _note(parts, records)
    began_s, crowd = time.monotonic(), _crowd(job, ends)
    while time.monotonic() - began_s < STEPS_S:
        ticks.look()
        time.sleep(0.01)
    calm = sorted(ticks.gaps)
    _note(parts, records)
    after = _crowd(job, ends)
    job = replace(job, stall_s=time.monotonic() + 0.05)
    job.write()
    noticed_s, verdict_s = _until_verdict(job, real, ticks)
    _note(parts, records)
    took_s = time.monotonic() - job.stall_s
    told = json.loads((real / "verdict.json").read_text()) if verdict_s is not None else {}
    leader, follower = parts
    return Measured(
        nodes=job.nodes,
        ranks=job.ranks,
        via=via,
        tick_ms=1000 * calm[len(calm) // 2],
        latest_tick_ms=1000 * (ticks.longest[0] - WANTED_TICK_S),
        latest_after_s=ticks.longest[1] - job.stall_s,
        noticed_s=noticed_s,
        verdict_s=verdict_s,
        right=bool(told) and told["findings"][0]["ranks"] == [job.late],
        leader_cpu=(leader.cpu_ms[1] - leader.cpu_ms[0]) / STEPS_S / 10,
        leader_cpu_stall=(leader.cpu_ms[2] - leader.cpu_ms[1]) / took_s / 10,
        leader_mib=leader.mib,
        follower_cpu=(follower.cpu_ms[1] - follower.cpu_ms[0]) / STEPS_S / 10,
        follower_mib=follower.mib,
        leader_in=(leader.received[1] - leader.received[0]) / STEPS_S,
        follower_out=(follower.sent[1] - follower.sent[0]) / STEPS_S,
        follower_in=(follower.received[1] - follower.received[0]) / STEPS_S,
        follower_out_stall=(follower.sent[2] - follower.sent[1]) / took_s,
        crowd_cpu=100 * (after[0] - crowd[0]) / STEPS_S,
        crowd_late_s=_crowd(job, ends)[1],
        load=os.getloadavg()[0],
    )


def _until_verdict(job: Job, folder: Path, ticks: Ticks) -> tuple[float | None, float | None]:
    """Seconds from the stall to the first look, and to the verdict on the terminal."""
    noticed_s = None
    while time.monotonic() - job.stall_s < VERDICT_LIMIT_S:
        ticks.look()
        now_s = time.monotonic() - job.stall_s
        if noticed_s is None and now_s > 0 and (folder / ".unhang" / "stacks").exists():
            noticed_s = now_s
        if re.search(rf"rank {job.late}\b", _printed(job)) and "re-read it: unhang diagnose" in _printed(job):
            return noticed_s, now_s
        time.sleep(0.01)
    return noticed_s, None


def _printed(job: Job) -> str:
    return (Path(job.place) / "h0.log").read_text(errors="replace")


def _news(records: Path) -> TransportState | None:
    box = state_mailbox(records)
    box.refresh()
    return box.last


def _heard(records: Path) -> int:
    news = _news(records)
    return sum(heard.heard_ns > heard.first_ns for heard in news.digests if heard.node != news.seat) if news else 0


def _note(parts: list[Part], records: list[Path]) -> None:
    for part, folder in zip(parts, records, strict=True):
        news = _news(folder)
        assert news is not None
        part.sent.append(news.sent)
        part.received.append(news.received)
        of_run = [path for path in Path("/proc").glob("[0-9]*") if _is_ours(path, folder)]
        part.cpu_ms.append(sum(_cpu_ms(path) for path in of_run))
        part.mib = max(part.mib, sum(_mib(path) for path in of_run))


def _is_ours(path: Path, records: Path) -> bool:
    """The watcher of that run or its carrier, with what they started."""
    with suppress(OSError):
        line = (path / "cmdline").read_bytes()
        return b"unhang.watch" in line and os.fsencode(records) in line
    return False


def _cpu_ms(path: Path) -> float:
    with suppress(OSError):
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        return sum(int(fields[at]) for at in (11, 12, 13, 14)) * TICKS
    return 0.0


def _mib(path: Path) -> float:
    with suppress(OSError, AttributeError):
        found = re.search(r"VmHWM:\s+(\d+)", (path / "status").read_text())
        return int(found[1]) / 1024 if found is not None else 0.0
    return 0.0


def _crowd(job: Job, ends: list[int]) -> tuple[float, float]:
    """Processor seconds of the simulated nodes so far, and how late they were at most in the last second."""
    told = []
    for first in ends[:-1]:
        with suppress(OSError, ValueError):
            told.append(json.loads((Path(job.place) / f"crowd-{first}.json").read_text()))
    return sum(one["cpu_s"] for one in told), max((one["late_s"] for one in told), default=0.0)


def table(measured: Sequence[Measured]) -> str:
    """Markdown."""
    head = "| nodes × ranks | meet in | latest tick | verdict after | leader: CPU calm / stalled, memory, in "
    head += "| each other node: CPU, memory, out calm / stalled, in | the rest's CPU, lateness | load |"
    rows = [head, "|---|---|---:|---:|---|---|---|---:|"]
    rows += [
        f"| {m.nodes:,} × {m.ranks // m.nodes} | {m.via} | {m.latest_tick_ms:.0f} ms | "
        f"{'none' if m.verdict_s is None else f'{m.verdict_s:.1f} s'}{'' if m.right else ' (wrong)'} | "
        f"{m.leader_cpu:.1f} / {m.leader_cpu_stall:.0f} %, {m.leader_mib:.0f} MiB, {m.leader_in / 1024:.1f} KiB/s | "
        f"{m.follower_cpu:.1f} %, {m.follower_mib:.0f} MiB, {m.follower_out:.0f} / {m.follower_out_stall:.0f} B/s, "
        f"{m.follower_in:.0f} B/s | {m.crowd_cpu:.0f} %, {m.crowd_late_s:.2f} s | {m.load:.1f} |"
        for m in measured
    ]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table; 1 where a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[125, 1250])
    parser.add_argument("--via", nargs="+", choices=["folder", "store"], default=["folder", "store"])
    parser.add_argument("--processes", type=int, default=max(2, (os.cpu_count() or 2) - 4))
    parser.add_argument("--keep", type=Path, help="write the figures there, as JSON")
    parser.add_argument("--logs", type=Path, help="copy what the nodes printed there")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the nodes end, and their folder goes, as after Ctrl-C
    measured = []
    for via in asked.via:
        for nodes in asked.nodes:
            measured.append(measure(nodes, via, asked.processes, asked.logs))
            print(measured[-1], file=sys.stderr, flush=True)
    print(table(measured))
    if asked.keep:
        asked.keep.write_text(json.dumps([asdict(one) for one in measured], indent=1))
    reached = all(
        m.right and m.verdict_s is not None and m.verdict_s <= 5 and m.latest_tick_ms <= 1000 for m in measured
    )
    return int(not reached)


if __name__ == "__main__":
    raise SystemExit(main())
