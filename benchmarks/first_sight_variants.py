"""The logs of scored batches as they reach us in life: cut, of one rank, without times, with what tools put in front.

    python -m benchmarks variants benchmarks/batches/NAME...

Of each variant: how many of the answers that were right for the whole log still are, and how often another cause than
the whole log's is *likely* or better, which must never be.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.corpus import Answer, diagnosed
from benchmarks.first_sight import HEALTHY, Case, read_batch

Lines = list[str]
LAST = 30
_TIME = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?\s?"
    r"|(?<!\d)\d\d:\d\d:\d\d(?:[.,]\d+)?\s?"
)
_RANK = re.compile(r"[Rr]ank[ :=]{0,2}(\d+)|\[(?:rank|default)(\d+)\]")


def _prefixed(prefix: str, lines: Lines) -> Lines:
    return [prefix.format(number=number % 60) + line for number, line in enumerate(lines)]


def _of_one_rank(lines: Lines) -> Lines:
    """What the rank that speaks most said, and what nobody in particular did."""
    spoken = [
        next((group for group in found.groups() if group), "") if (found := _RANK.search(line)) else ""
        for line in lines
    ]
    ranks = sorted(filter(None, spoken))
    most = max(dict.fromkeys(ranks), key=ranks.count, default="")
    return [line for line, rank in zip(lines, spoken, strict=True) if rank in ("", most)]


VARIANTS: dict[str, Callable[[Lines], Lines]] = {
    f"last {LAST} lines": lambda lines: lines[-LAST:],
    "one rank": _of_one_rank,
    "no times": lambda lines: [_TIME.sub("", line) for line in lines],
    "kubectl logs": partial(_prefixed, "2026-11-20T10:30:{number:02d}.123456789Z "),
    "srun -l": partial(_prefixed, "0: "),
    "Ray": partial(_prefixed, "(RayTrainWorker pid=4711, ip=10.0.0.12) "),
    "chat": partial(_prefixed, "> "),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each variant."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks variants", description=__doc__)
    parser.add_argument("batches", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    cases = [case for batch in options.batches for case in read_batch(batch)]
    with multiprocessing.Pool(os.cpu_count() or 1) as pool, tempfile.TemporaryDirectory() as folder:
        whole = pool.map(diagnosed, [case.log for case in cases], chunksize=2)
        print("variant: kept of those right for the whole log; another cause, likely or better")
        for name, change in VARIANTS.items():
            logs = list(_changed(cases, change, Path(folder) / name.replace(" ", "-")))
            _print(name, cases, whole, pool.map(diagnosed, logs, chunksize=2))
    return 0


def _changed(cases: Sequence[Case], change: Callable[[Lines], Lines], folder: Path) -> Iterator[Path]:
    """The logs after ``change``, each under a name of its own; of folders every file."""
    for case in cases:
        files = [case.log] if case.log.is_file() else sorted(path for path in case.log.rglob("*") if path.is_file())
        for file in files:
            place = folder / case.id / file.relative_to(case.log.parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            lines = file.read_bytes().decode("utf-8", "replace").splitlines()
            place.write_text("\n".join(change(lines)) + "\n", encoding="utf-8")
        yield folder / case.id / case.log.name


def _print(name: str, cases: Sequence[Case], whole: Sequence[Answer], changed: Sequence[Answer]) -> None:
    scored = [item for item in zip(cases, whole, changed, strict=True) if item[0].scored and item[0].cause != HEALTHY]
    right = [(case, after) for case, before, after in scored if before.causes[0] in case.accepted]
    kept = sum(after.causes[0] in case.accepted for case, after in right)
    other = [
        case.id
        for case, before, after in zip(cases, whole, changed, strict=True)
        if after.certainty in ("likely", "certain")
        and after.causes[0] not in {before.causes[0], "unknown", *case.accepted}
    ]
    print(f"{name:14s} {kept}/{len(right)}  {len(other)} {' '.join(other)}")


if __name__ == "__main__":
    raise SystemExit(main())
