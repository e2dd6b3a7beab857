"""``make fuzz``: as many inputs as asked for, through everything that reads what comes from outside.

Examples::

    make fuzz                                        # five minutes, all targets in fixed shares
    make fuzz ARGS="--count 30000 --target diagnose" # so many inputs, however long it takes
    make fuzz ARGS="--target diagnose --only 1234"   # one input again, and what was wrong with it
    make fuzz ARGS="--coverage --count 3000"         # which branches of the readers and facts were taken
    make fuzz ARGS=--prove                           # bugs put back on purpose are found

Prints a row for the table in ``docs/fuzzing.md``. Exit code 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.fuzz.pool import TARGETS, Told, Work, here, made, spread
from tests.fuzz.seeds import CORPUS, write_files

SHARES = {
    "diagnose": 8, "readers": 71, "check": 2, "jobs": 2, "compare": 2, "view": 2, "history": 2, "bundles": 2, "wire": 9,
}  # fmt: skip
"""Of a hundred inputs, where no target is named; readers are a hundred times as fast as the whole chain."""

MAX_EXAMPLES = 10
"""Inputs named of each kind of broken promise."""


def works(targets: Sequence[str], seed: str, first: int, count: int) -> Iterator[Work]:
    """The inputs of a run, targets in blocks so that each process serves one."""
    left = dict.fromkeys(targets, count) if len(targets) == 1 else {t: count * SHARES[t] // 100 for t in targets}
    at = dict.fromkeys(targets, first)
    while any(left.values()):
        for target in targets:
            block = min(left[target], max(1, SHARES[target] * 10))
            left[target] -= block
            for _ in range(block):
                yield Work(target, seed, at[target])
                at[target] += 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--time", type=float, default=0.0, help="seconds; default 300 where no count is given")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seed", default="1", help="of the run: the same seed gives the same inputs")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", type=int, help="this one input, in this process")
    parser.add_argument(
        "--keep", action="store_true", help="put what broke a promise below tests/fuzz/corpus, made small"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--until", default="", help="stop at the first promise that is broken with these words")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--prove", action="store_true")
    return parser.parse_args()


def main() -> int:
    """Run what was asked for."""
    asked = _arguments()
    targets = tuple(asked.target or TARGETS)
    if asked.prove:
        from tests.fuzz.proof import prove

        return prove()
    if asked.coverage:
        from tests.fuzz.measuring import measure

        return measure(works(targets, asked.seed, asked.first, asked.count or 3000))
    if asked.only is not None:
        return _one(Work(targets[0], asked.seed, asked.only))
    until = time.monotonic() + (asked.time or (1e9 if asked.count else 300.0))
    return _many(targets, asked, until)


def _one(work: Work) -> int:
    name, given = made(work)
    place = Path("fuzz-input")
    write_files(given.files, place)
    (told,) = here([work])
    print(f"{work.target} {work.seed} {work.number} ({given.seed.name}, {name}) in {place}/, {told.took_s:.2f} s")
    print("\n".join(told.wrong) or "every promise is kept")
    return 1 if told.wrong else 0


def _many(targets: Sequence[str], asked: argparse.Namespace, until: float) -> int:
    began = time.monotonic()
    done: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    slowest = 0.0
    every = works(targets, asked.seed, asked.first, asked.count or 10**9)
    for told in spread(every, asked.jobs, until):
        done[told.work.target] += 1
        slowest = max(slowest, told.took_s)
        for wrong in told.wrong:
            kind = f"{told.work.target}: {wrong[:150]}"
            kinds[kind] += 1
            if kinds[kind] <= MAX_EXAMPLES:
                print(f"{told.work.target} --only {told.work.number}: {wrong[:300]}", flush=True)
            if kinds[kind] == 1 and asked.keep:
                _keep(told)
        if asked.until and any(asked.until in wrong for wrong in told.wrong):
            break
    took = time.monotonic() - began
    for kind, count in kinds.most_common(60):
        print(f"{count:>6} × {kind}")
    for target in targets:
        broken = sum(count for kind, count in kinds.items() if kind.startswith(f"{target}:"))
        count, pace = done[target], done[target] / max(took, 0.1)
        print(f"| `{target}` | {count:,} | {took / 60:.1f} min | {pace:,.1f} | {slowest:.1f} s | {broken} |")
    return 1 if kinds else 0


def _keep(told: Told) -> None:
    from tests.fuzz.smaller import smaller

    name, files = smaller(told.work, told.wrong[0])
    folder = CORPUS / told.work.target / f"found-{name}-{told.work.number}"
    write_files(files, folder)
    print(f"  kept in {folder}")


if __name__ == "__main__":
    sys.exit(main())
