"""How long from a stall to the right verdict under ``unhang run``, and how many false alarms in healthy jobs.

    python benchmarks/detection.py [--rounds 3] [--healthy-minutes 30] [--cases NAME…] [--json FILE]

The stall is dated by the job itself: the last moment any of its ranks moved (its records), or the moment the fault was
injected. Three kinds of rows:

- *frozen*: nobody will go on; counts when the right cause stands on the terminal;
- *work*: one rank works while the others wait, which the lab bears for ``SLOW_AFTER_S``;
- *pace*: nothing stops, one rank holds the others up; counted from the moment all ranks had issued collectives.

``wrong`` counts verdicts with the right cause whose status, ranks or lines are not the case's. Healthy jobs share the
minutes equally; an alarm is every verdict of status hang or crash, a remark every one of status slow.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang_lab.expectation import find_mistakes, names_the_cause
from unhang_lab.lab_case import CASES, LabCase
from unhang_lab.watched import WatchedCase, watch_case

LIMIT_S = 60.0
KINDS = ("frozen", "work", "limit", "pace")
SHAPES = (
    "tiny-steps",
    "long-steps",
    "evaluation-on-all",
    "rank0-saves",
    "rank0-evaluates",
    "compiles-with-skew",
    "loader-starts",
)


@dataclass(frozen=True, slots=True)
class Round:
    """One run of one case. ``seconds`` None: the right cause did not come."""

    seconds: float | None
    wrong: tuple[str, ...] = ()


def kind_of(case: LabCase) -> str:
    """Which row it belongs to."""
    if case.moment == "moving":
        return "pace"
    if case.timeout_s < LIMIT_S:
        return "limit"  # what it is shows only when the limit has passed
    return "work" if case.expected.watched == ("slow",) else "frozen"


def run(case: LabCase) -> Round:
    """From the stall to the right verdict."""
    with tempfile.TemporaryDirectory(prefix="detection-") as name:
        # Not the case's name: it would stand in every path of the evidence.
        folder = Path(name) / "job"
        with watch_case(case, folder) as job:
            clock = _Clock(job)
            seconds = clock.seconds_until(lambda: _is_said(job))
        if seconds is None:
            return Round(None)
        verdict = diagnose(build_facts(read_evidence([str(folder)])))
        return Round(seconds, tuple(find_mistakes(case, folder, verdict, watched=True)))


class _Clock:
    """Dates the stall before every look at the verdict: a rank that falls when its job is ended moves once more."""

    def __init__(self, job: WatchedCase) -> None:
        self.job, self.began_s = job, 0.0

    def seconds_until(self, said: Callable[[], bool]) -> float | None:
        def looked() -> bool:
            self._date()
            return said()

        return time.time() - self.began_s if self.job.wait_for(looked, LIMIT_S) else None

    def _date(self) -> None:
        job = self.job
        if kind_of(job.case) != "pace":
            self.began_s = job.injected_s or job.moved_s
        elif not self.began_s and len(job.views) == job.ranks and all(view.groups for view in job.views.values()):
            self.began_s = time.time()


def _is_said(job: WatchedCase) -> bool:
    case, cause = job.case, job.case.expected.cause
    if cause is None or not names_the_cause(job.verdict(), case):
        return False
    return f"\n{cause.value} · " in job.terminal.read_text(errors="replace")


def false_alarms(minutes: float) -> list[dict[str, Any]]:
    """Alarms and remarks of every healthy shape."""
    rows = []
    for shape in SHAPES:
        seconds = minutes * 60 / len(SHAPES)
        with tempfile.TemporaryDirectory(prefix="healthy-") as folder:
            command = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run"]
            command += ["--dir", f"{folder}/run", "--", sys.executable, "-m", "torch.distributed.run", "--standalone"]
            command += ["--nproc-per-node=2", str(Path(__file__).with_name("healthy_job.py")), shape, f"{seconds:.0f}"]
            environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"} | dict(os.environ)
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds + 180, check=False, env=environment
            )
        rows.append(
            {
                "shape": shape,
                "minutes": round(seconds / 60, 2),
                "exit_code": done.returncode,
                "alarms": len(re.findall(r"^(?:HANG|CRASH|UNKNOWN)\b", done.stderr, re.MULTILINE)),
                "remarks": len(re.findall(r"^SLOW\b", done.stderr, re.MULTILINE)),
                "quiet_lines": len(re.findall(r"ha(?:s|ve) been waiting", done.stderr)),
                "last": done.stderr.splitlines()[-2:],
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def table(rounds: dict[str, list[Round]], kinds: dict[str, str]) -> str:
    """One row a case, and one a kind."""
    lines = [f"{'case':28} {'kind':7} {'median s':>8} {'worst s':>8} {'missed':>7} {'wrong':>6}"]
    for name, done in rounds.items():
        lines.append(_row(name, kinds[name], done))
    for kind in KINDS:
        every = [one for name, done in rounds.items() if kinds[name] == kind for one in done]
        if every:
            lines.append(_row(f"all {len(every)} rounds", kind, every))
    return "\n".join(lines)


def _row(name: str, kind: str, done: list[Round]) -> str:
    seconds = [one.seconds for one in done if one.seconds is not None]
    median, worst = (statistics.median(seconds), max(seconds)) if seconds else (float("nan"), float("nan"))
    wrong = sum(bool(one.wrong) for one in done)
    return f"{name:28} {kind:7} {median:8.1f} {worst:8.1f} {len(done) - len(seconds):7d} {wrong:6d}"


def main() -> int:
    """Measure and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--healthy-minutes", type=float, default=30.0)
    arguments.add_argument("--cases", nargs="*")
    arguments.add_argument("--json", type=Path)
    asked = arguments.parse_args()
    stalls = [case for case in CASES if case.expected.cause is not None]
    chosen = [case for case in stalls if not asked.cases or case.name in asked.cases]
    rounds: dict[str, list[Round]] = {case.name: [] for case in chosen}
    load_before = os.getloadavg()
    for _ in range(asked.rounds):
        for case in chosen:
            rounds[case.name].append(run(case))
            print(case.name, rounds[case.name][-1], f"load {os.getloadavg()[0]:.1f}", flush=True)
    print("\n" + table(rounds, {case.name: kind_of(case) for case in chosen}))
    print(
        f"{os.cpu_count()} processors; load of the machine before {load_before[0]:.1f}, after {os.getloadavg()[0]:.1f}"
    )
    rows = false_alarms(asked.healthy_minutes) if asked.healthy_minutes > 0 else []
    if rows:
        alarms = sum(row["alarms"] for row in rows)
        print(f"healthy: {alarms} alarms, {sum(row['remarks'] for row in rows)} remarks, {asked.healthy_minutes:g} min")
    if asked.json:
        times = {name: [one.seconds for one in done] for name, done in rounds.items()}
        wrong = {name: [one.wrong for one in done] for name, done in rounds.items()}
        asked.json.write_text(json.dumps({"times_s": times, "wrong": wrong, "healthy": rows}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
