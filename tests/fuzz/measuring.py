"""Which branches of the readers and the facts were taken: what has few gets more seeds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.pool import Work, here

MIN_PERCENT = 80.0
ROOMS = ("evidence", "facts")


def measure(works: Iterable[Work]) -> int:
    """Run ``works`` in this process and print branch coverage by file; those under :data:`MIN_PERCENT` are marked."""
    import coverage

    import unhang

    source = [str(Path(unhang.__file__).parent / room) for room in ROOMS]
    watched = coverage.Coverage(branch=True, source=source, data_file=None, messages=False)
    watched.start()
    broken = sum(bool(told.wrong) for told in here([*works]))
    watched.stop()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "told.json"
        watched.json_report(outfile=str(path), ignore_errors=True)
        told = json.loads(path.read_text(encoding="utf-8"))
    totals = dict.fromkeys(ROOMS, (0, 0))
    for name, file in sorted(told["files"].items()):
        counts = file["summary"]
        branches, taken = counts["num_branches"], counts["covered_branches"]
        room = next(room for room in ROOMS if f"/{room}/" in name)
        totals[room] = (totals[room][0] + branches, totals[room][1] + taken)
        share = 100 * taken / branches if branches else 100.0
        if share < MIN_PERCENT:
            print(f"{share:5.1f} %  {taken:>4} of {branches:<4} {name.rpartition('unhang/')[2]}")
    for room, (branches, taken) in totals.items():
        print(f"| branches of `{room}/` | {taken:,} of {branches:,} | {100 * taken / max(1, branches):.1f} % |")
    return 1 if broken else 0
