"""One size of a ramp: the command for a few steps under ``unhang run``, and what they cost."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unhang.check.environment import collect_limits
from unhang.check.environment.environment import MemoryLimit
from unhang.check.sameness.sameness import RankStart
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob
from unhang.view.regular_files import read_json_as
from unhang.watch.launch.dry_run import dry_run_environment, kill_job, last_output_lines, read_starts, start_job
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.record import read_records

TICK_S, MEMORY_S = 0.2, 1.0
GOOD, STALL, CRASH, MEMORY, LIMIT, NO_STEPS = "good", "stall", "crash", "memory", "limit", "no-steps"
_MEMORY_CAUSES = ("gpu-oom", "host-memory")
_UNHANG = (sys.executable, "-c", "from unhang.cli.main import main; main()")


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """``steps`` to time after one to warm up; ``limit_s`` for one size; ``stall_s``: so long ranks may wait for one
    that works.
    """

    steps: int = 5
    limit_s: float = 600.0
    stall_s: float = 60.0


@dataclass(frozen=True, slots=True)
class RampTrial:
    """``values`` by name; ``outcome``: ``good``, ``stall``, ``crash``, ``memory``, ``limit`` (the time was over),
    ``no-steps`` (the command ended before the steps were done). Bytes; None where it is not known.
    """

    values: Mapping[str, str]
    outcome: str
    seconds: float
    ranks: int = 0
    step_s: tuple[float, ...] = ()
    """Each step, by the slowest rank."""
    collective_share: float | None = None
    """Of looks at the ranks while they made steps, those that found a collective under way."""
    memory_free: int | None = None
    """The least that was free under the tightest limit of this machine."""
    memory_limit: int | None = None
    memory_of_rank: int | None = None
    card_free: int | None = None
    card_size: int | None = None
    code: int | None = None
    cause: str = ""
    """Of the verdict, where there is one."""
    sentence: str = ""
    last_words: tuple[str, ...] = ()

    @property
    def typical_s(self) -> float | None:
        """The median step."""
        return statistics.median(self.step_s) if self.step_s else None

    @property
    def spread(self) -> float | None:
        """The longest step over the median one."""
        return max(self.step_s) / self.typical_s if self.step_s and self.typical_s else None


@dataclass(slots=True)
class _Observations:
    """What was seen while the command ran."""

    looks: Counter[bool] = field(default_factory=Counter)
    free: int | None = None
    limit: int | None = None
    verdict: dict[str, Any] = field(default_factory=dict)
    """The last one on the living job; what it says once we ended it is about our signal."""
    _slow_since_s: float | None = None
    _next_memory_s: float = 0.0

    def sample(self, folder: Path, run: Path) -> None:
        """One look at the ranks, and once a second one at the memory."""
        if time.monotonic() >= self._next_memory_s:
            self._next_memory_s = time.monotonic() + MEMORY_S
            found: MemoryLimit | None = _memory()
            if found is not None:
                self.limit = found.limit
                left = found.limit - found.used
                self.free = left if self.free is None else min(self.free, left)
        self._note_verdict(run)
        plan = read_json_as(run / "run.json", RunPlan)
        if plan is None or not any(s.stage == "stepping" for s in read_starts(folder)):
            return
        for view in read_records(Path(plan.records)).values():
            if not (view.closed or view.ended):
                under_way = any(group.enqueued > max(group.completed, 0) for group in view.groups)
                self.looks[under_way or view.phase == "communication"] += 1

    def _note_verdict(self, run: Path) -> None:
        self.verdict = _verdict(run)
        if self.verdict.get("status") != "slow":
            self._slow_since_s = None
        elif self._slow_since_s is None:
            self._slow_since_s = time.monotonic()

    def stalled(self, limit_s: float) -> bool:
        """The ranks wait for each other: for good, or for one that has worked longer than ``limit_s``."""
        if self.verdict.get("status") == "hang":
            return True
        # it was said to be slow after half of the limit
        return self._slow_since_s is not None and time.monotonic() - self._slow_since_s > limit_s / 2


def run_trial(
    command: Sequence[str], values: Mapping[str, str], folder: Path, kept: Path | None, bounds: TrialLimits
) -> RampTrial:
    """Run ``command`` for a few timed steps.

    ``folder`` takes what the ranks leave, ``kept`` the run folder (default: inside ``folder``). Nothing of the command
    lives on afterwards.
    """
    run = kept or folder / "run"
    slow_after = str(max(1.0, bounds.stall_s / 2))
    words = [*_UNHANG, "run", "--dir", str(run), "--slow-after", slow_after, "--capture", "--lang", "en", "--"]
    environment = dry_run_environment(command, dict(os.environ), folder, bounds.steps)
    environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")  # `unhang run` brings the start-up hook itself
    began, seen = time.monotonic(), _Observations()
    with (folder / "output").open("wb") as output:
        job = start_job([*words, *command], output, environment)
        try:
            while job.poll() is None and time.monotonic() - began < bounds.limit_s and not seen.stalled(bounds.stall_s):
                seen.sample(folder, run)
                time.sleep(TICK_S)
            code = job.poll()
        finally:
            kill_job(job, folder)
    return _trial_result(values, code, time.monotonic() - began, folder, run, seen)


def _memory() -> MemoryLimit | None:
    for kind, look in collect_limits.collect(Machine(), PlannedJob()):
        if kind is MemoryLimit:
            found: MemoryLimit | None = look.found
            return found
    return None


def _trial_result(
    values: Mapping[str, str], code: int | None, seconds: float, folder: Path, run: Path, seen: _Observations
) -> RampTrial:
    starts = read_starts(folder)
    done = [s for s in starts if s.stage == "done"]
    whole = bool(done) and len(done) == len(starts)
    verdict = {} if whole else (_verdict(run) if code is not None else seen.verdict)
    finding: dict[str, Any] = (verdict.get("findings") or [{}])[0]
    looks = sum(seen.looks.values())
    cards = [s.memory["card_free"] for s in starts if "card_free" in s.memory]
    return RampTrial(
        values=values,
        outcome=GOOD if whole else _failure(code, verdict, finding),
        seconds=seconds,
        ranks=len(starts),
        step_s=_steps(starts),
        collective_share=seen.looks[True] / looks if looks else None,
        memory_free=seen.free,
        memory_limit=seen.limit,
        memory_of_rank=max((s.memory.get("host", 0) for s in starts), default=None),
        card_free=min(cards, default=None),
        card_size=max((s.memory.get("card_size", 0) for s in starts), default=0) or None,
        code=code,
        cause=str(finding.get("cause", "")),
        sentence=str(finding.get("summary", "")),
        last_words=()
        if whole
        else last_output_lines(run / "logs" / "launcher.log") or last_output_lines(folder / "output"),
    )


def _steps(starts: Sequence[RankStart]) -> tuple[float, ...]:
    """Each step by its slowest rank, as far as all ranks came."""
    rows = [start.step_s for start in starts if start.step_s]
    return tuple(max(step) for step in zip(*rows, strict=False)) if rows else ()


def _verdict(run: Path) -> dict[str, Any]:
    return read_json_as(run / "verdict.json", dict) or {}


def _failure(code: int | None, verdict: Mapping[str, Any], finding: Mapping[str, Any]) -> str:
    if finding.get("cause") in _MEMORY_CAUSES:
        return MEMORY
    if code is None:
        return STALL if verdict.get("status") in ("hang", "slow") else LIMIT
    return CRASH if code else NO_STEPS
