"""``make bench``: the measurements whose tables stand in docs/benchmarks.md; others by their name in ``ARGS``:
``logs``; ``"corpus --folder DIR"``; ``endings`` (runs that ended well, or only said so); ``"first-sight DIR"`` (logs
nobody has seen); ``"variants DIR"`` (the same, cut and prefixed); ``inprocess`` (what being recorded costs);
``first-dump`` (what a first dump costs); ``guards``; ``kills``; ``traces`` (beside json.load, ijson and
HolisticTraceAnalysis); ``resharding`` (beside a plain loop and tar); ``many-nodes`` (10,000 ranks under one leader);
``messaging`` (what carries values between watchers, beside what exists); ``many-ranks`` (how time grows with ranks and
groups); ``history`` (a million runs, 200 writers); ``start`` (short commands from the shell); ``incidents`` (what the
library of incidents is worth); ``"real-projects DIR"`` (``unhang check`` on five projects at the commits of their
reports); ``"real-pairs SET DIR"`` (on projects just before and after the fix of a stall);
``"live-jobs DIR"`` (jobs that stall for real, under ``unhang run``); ``"object-store speed"`` (evidence in an S3
store, read by a cluster).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    corpus,
    endings,
    first_dump,
    first_sight,
    first_sight_variants,
    flight_recorder,
    guards,
    history,
    inprocess,
    kills,
    known_incidents,
    live_jobs,
    logs,
    many_nodes,
    many_ranks,
    messaging,
    real_pairs,
    real_projects,
    resharding,
    start,
    traces,
)
from benchmarks.object_store import __main__ as object_store

OTHERS: dict[str, Callable[[list[str]], int]] = {
    "logs": logs.main,
    "corpus": corpus.main,
    "endings": endings.main,
    "first-sight": first_sight.main,
    "variants": first_sight_variants.main,
    "incidents": known_incidents.main,
    "inprocess": inprocess.main,
    "first-dump": first_dump.main,
    "history": history.main,
    "kills": kills.main,
    "guards": guards.main,
    "resharding": resharding.main,
    "traces": traces.main,
    "many-nodes": many_nodes.main,
    "messaging": messaging.main,
    "many-ranks": many_ranks.main,
    "real-pairs": real_pairs.main,
    "real-projects": real_projects.main,
    "live-jobs": live_jobs.main,
    "start": start.main,
    "object-store": object_store.main,
}


def main() -> int:
    """Dumps beside torchfrtrace and pickle.load, and the whole command; or one of OTHERS. Options are passed on."""
    other = OTHERS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if other is not None:
        return other(sys.argv[2:])
    unhang = Path(sys.executable).with_name("unhang")
    diagnose = f"{shlex.quote(str(unhang))} diagnose {{dir}} --format json"
    sys.argv[1:1] = ["--diagnose", diagnose]
    return flight_recorder.main()


if __name__ == "__main__":
    raise SystemExit(main())
