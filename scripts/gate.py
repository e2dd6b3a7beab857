"""Judge a run of the tests: a skip must be expected, and what failed is run once more, alone.

    .venv/bin/python scripts/gate.py OUTCOMES

OUTCOMES is what ``pytest --outcomes OUTCOMES`` has written. Exit code 1 where something is red.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import tomli

TESTS = Path(__file__).resolve().parents[1] / "tests"
MAX_AGAIN = 10
"""Where more than these failed, it was not the company they ran in."""
MAX_KEPT = 3
ALONE_LIMIT_S = 600


def rows(file: str) -> list[dict[str, Any]]:
    """The rows of ``allowed_skips.toml`` or ``passed_alone.toml``."""
    tables = tomli.loads((TESTS / file).read_text(encoding="utf-8")).values()
    return [row for table in tables for row in table]


def unexpected(skipped: Mapping[str, str], allowed: Sequence[Mapping[str, str]]) -> list[str]:
    """What was skipped and is not on the list, or for another reason."""

    def expected(test: str, reason: str) -> bool:
        return any(test.partition("[")[0] == row["test"] and row["says"] in reason for row in allowed)

    return [f"{test}: {reason}" for test, reason in skipped.items() if not expected(test, reason)]


def judge(
    outcomes: Mapping[str, Any],
    allowed: Sequence[Mapping[str, str]],
    kept: Iterable[str],
    passes: Callable[[str], bool],
) -> Iterator[str]:
    """What is red; ``passes`` runs one test alone."""
    for skip in unexpected(outcomes["skipped"], allowed):
        yield f"skipped, and not in tests/allowed_skips.toml: {skip}"
    failed = outcomes["failed"]
    if outcomes["exit"] != bool(failed):
        yield f"pytest ended with exit code {outcomes['exit']}"
    if len(failed) > MAX_AGAIN:
        yield f"{len(failed)} tests failed; none is run again"
        return
    alone = {test: passes(test) for test in failed}
    yield from (f"failed alone too: {test}" for test in failed if not alone[test])
    yield from _too_many([test for test in failed if alone[test]], set(kept))


def _too_many(passed: Sequence[str], kept: set[str]) -> Iterator[str]:
    for test in passed:
        print(f"passed alone: {test}" if test in kept else f"passed alone, to be added:\n{_row(test)}", flush=True)
    if len(every := {*passed, *kept}) > MAX_KEPT:
        yield f"{len(every)} tests have passed only alone, and {MAX_KEPT} may: {', '.join(sorted(every))}"


def _row(test: str) -> str:
    day = datetime.now(timezone.utc).date()
    return f'# tests/passed_alone.toml\n[[test]]\nid = {json.dumps(test)}\ndate = {day}\nreason = ""\n'


def passes_alone(test: str) -> bool:
    """Run one test by itself; what it prints is set in, so that it is not taken for the whole run's."""
    print(f"once more, alone: {test}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "outcomes.json"
        words = [sys.executable, "-m", "pytest", test, "--outcomes", str(told)]
        try:
            done = subprocess.run(
                words,
                cwd=TESTS.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=ALONE_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"    not done after {ALONE_LIMIT_S} s")
            return False
        print("".join(f"    {line}\n" for line in done.stdout.splitlines()[-60:]), flush=True)
        return done.returncode == 0 and not json.loads(told.read_text(encoding="utf-8"))["skipped"]


def main(file: Path) -> int:
    """Print what is red."""
    if not file.exists() or not file.stat().st_size:
        print("red: the tests did not come to their end")
        return 1
    outcomes = json.loads(file.read_text(encoding="utf-8"))
    kept = [row["id"] for row in rows("passed_alone.toml")]
    red = list(judge(outcomes, rows("allowed_skips.toml"), kept, passes_alone))
    print("".join(f"red: {line}\n" for line in red), end="")
    return int(bool(red))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
