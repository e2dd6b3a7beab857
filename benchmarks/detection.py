"""How long from a stall to the right verdict under ``unhang run``, and how many false alarms in healthy jobs.

    python -m benchmarks.detection [--rounds 3] [--healthy-minutes 30] [--cases NAME…] [--json FILE]

The stall is dated by the job itself: the last moment any of its ranks moved (its records), or the moment the fault was
injected. The verdict counts when its cause is the right one and it was said loudly (status hang or crash; slow where
the laggard works). The healthy jobs are those of ``benchmarks.healthy``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.healthy import listen_to_all, table
from unhang.findings import Cause
from unhang.lab.catalog import CASES, Case
from unhang.lab.watched import watched

LIMIT_S = 60.0
WORK = (Cause.SINGLE_RANK_WORK, Cause.SLOW_DATA_LOADING, Cause.TIMEOUT_TOO_SHORT)


def measured() -> list[Case]:
    """Cases that stall."""
    return [case for case in CASES if case.expected.cause is not None and case.moment != "moving"]


def seconds_to_verdict(case: Case) -> float | None:
    """From the stall to the right verdict; None when it did not come."""
    with tempfile.TemporaryDirectory(prefix="detection-") as folder, watched(case, Path(folder) / "run") as job:

        def right() -> bool:
            told: dict[str, Any] = job.verdict() or {}
            findings, cause = told.get("findings"), case.expected.cause
            if not findings or cause is None:
                return False
            loud = told["status"] in case.expected.status or (cause in WORK and told["status"] == "slow")
            return loud and findings[0]["cause"] == cause.value

        began_s: list[float] = []

        def dated() -> bool:
            # A rank that falls over when its job is ended moves once more: the stall began before the verdict.
            began_s[:] = [job.injected_s or job.moved_s]
            return right()

        return time.time() - began_s[0] if job.wait_for(dated, LIMIT_S) else None


def main() -> int:
    """Measure and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--healthy-minutes", type=float, default=30.0)
    arguments.add_argument("--cases", nargs="*")
    arguments.add_argument("--json", type=Path)
    asked = arguments.parse_args()
    chosen = [case for case in measured() if not asked.cases or case.name in asked.cases]
    times: dict[str, list[float | None]] = {case.name: [] for case in chosen}
    for _ in range(asked.rounds):
        for case in chosen:
            times[case.name].append(seconds_to_verdict(case))
            print(case.name, times[case.name][-1], flush=True)
    print(f"\n{'case':30} {'median s':>9} {'worst s':>8}  missed")
    frozen: list[float] = []
    for case in chosen:
        found = [value for value in times[case.name] if value is not None]
        missed = len(times[case.name]) - len(found)
        frozen += found if case.expected.cause not in WORK else []
        shown = (statistics.median(found), max(found)) if found else (float("nan"),) * 2
        print(f"{case.name:30} {shown[0]:9.1f} {shown[1]:8.1f}  {missed}")
    if frozen:
        print(f"frozen kinds: median {statistics.median(frozen):.1f} s, worst {max(frozen):.1f} s, n={len(frozen)}")
    heard = listen_to_all(asked.healthy_minutes) if asked.healthy_minutes > 0 else []
    if heard:
        print(f"\n{table(heard)}")
    if asked.json:
        asked.json.write_text(json.dumps({"times_s": times, "healthy": [asdict(h) for h in heard]}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
