"""Score a batch of logs that nobody who works on the rules has seen, once.

    python -m benchmarks first-sight benchmarks/batches/NAME

A batch is written by somebody who does not read the sources, with its truth, and is committed before it is scored. This
writes one line to ``benchmarks/first_sight.jsonl``, which is never changed: a batch that was scored, one that is not
committed as it stands, and one that shares a thread with an earlier batch or with ``knowledge/`` are refused. ``kind``
of a case: ``tells`` (the log tells the cause), ``part`` (in part), ``open`` (it does not, or the job is well).
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.corpus import Answer, diagnosed, grepped

ROOT = Path(__file__).resolve().parents[1]
SCORES = ROOT / "benchmarks" / "first_sight.jsonl"
BATCHES = ROOT / "benchmarks" / "batches"
PEER = ROOT / "benchmarks" / "keyword_grep.py"
HEALTHY = "healthy"
KINDS = ("tells", "part", "open")


class RefusedError(Exception):
    """This batch cannot be scored, or not any more."""


@dataclass(frozen=True, slots=True)
class Case:
    """One log and its truth. ``cause`` is ``healthy`` for a job that is well."""

    id: str
    url: str
    log: Path
    cause: str
    accepted: frozenset[str]
    ranks: frozenset[int]
    kind: str
    scored: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Score the batch, write its line, print the misses."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks first-sight", description=__doc__)
    parser.add_argument("batch", type=Path)
    parser.add_argument("--again", action="store_true", help="a batch scored before: print, write nothing")
    options = parser.parse_args(arguments)
    cases = read_batch(options.batch)
    if not options.again:
        refuse_what_was_seen(options.batch, cases)
    with multiprocessing.Pool(os.cpu_count() or 1) as pool:
        logs = [case.log for case in cases]
        ours = list(zip(cases, map(_well, pool.map(diagnosed, logs, chunksize=2)), strict=True))
        peer = list(zip(cases, pool.map(grepped, logs, chunksize=2), strict=True))
    row = {
        "batch": options.batch.name,
        "sha256": digest(options.batch),
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "commit": _git("rev-parse", "HEAD"),
        "peer_sha256": hashlib.sha256(PEER.read_bytes()).hexdigest(),
        "ours": figures(ours),
        "peer": figures(peer),
        "answers": {case.id: [*answer.causes[:3], answer.certainty, sorted(answer.ranks)] for case, answer in ours},
    }
    if not options.again:
        with SCORES.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, sort_keys=True) + "\n")
    _print(row, ours)
    return 0


def read_batch(folder: Path) -> list[Case]:
    """The cases of ``folder/cases.jsonl``."""
    return [
        _case(folder, json.loads(line)) for line in (folder / "cases.jsonl").read_text("utf-8").splitlines() if line
    ]


def _case(folder: Path, told: dict[str, Any]) -> Case:
    cause = told["cause"] or HEALTHY
    accepted = frozenset((cause, *told["accept"]))
    ranks = frozenset(told["culprit_ranks"] or ())
    return Case(told["id"], told["url"], folder / told["log"], cause, accepted, ranks, told["kind"], told["scored"])


def _well(answer: Answer) -> Answer:
    return Answer((HEALTHY,)) if answer.status == HEALTHY else answer


def figures(pairs: Sequence[tuple[Case, Answer]]) -> dict[str, Any]:
    """[right, of how many] by kind; ranks where the log tells them; calibration over everything that has a cause."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        mine = [(case, answer) for case, answer in pairs if case.scored and case.kind == kind and case.cause != HEALTHY]
        found[kind] = _count(_right(case, answer) for case, answer in mine)
    found["ranks"] = _count(_names(c, a) for c, a in pairs if c.scored and c.kind == "tells" and c.ranks)
    well = [(case, answer) for case, answer in pairs if case.cause == HEALTHY]
    found["healthy_called_healthy"] = _count(answer.causes[0] == HEALTHY for case, answer in well if case.scored)
    found["alarms_on_healthy"] = _count(_alarms(answer) for _, answer in well)
    found["stalls_called_healthy"] = sum(a.causes[0] == HEALTHY for c, a in pairs if c.cause != HEALTHY)
    said: dict[str, list[bool]] = defaultdict(list)
    for case, answer in pairs:
        if case.cause not in (HEALTHY, "unknown") and answer.certainty and answer.causes[0] != "unknown":
            said[answer.certainty].append(_right(case, answer))
    found["calibration"] = {certainty: _count(marks) for certainty, marks in sorted(said.items())}
    found["falsely_certain"] = sum(a.certainty == "certain" and not _right(c, a) and _alarms(a) for c, a in pairs)
    return found


def _right(case: Case, answer: Answer) -> bool:
    return answer.causes[0] in case.accepted


def _names(case: Case, answer: Answer) -> bool:
    return bool(answer.ranks & case.ranks) and len(answer.ranks) <= max(len(case.ranks) + 1, 2)


def _alarms(answer: Answer) -> bool:
    return answer.causes[0] not in ("unknown", HEALTHY)


def _count(marks: Iterable[bool]) -> list[int]:
    held = list(marks)
    return [sum(held), len(held)]


# ---- what is refused


def refuse_what_was_seen(folder: Path, cases: Sequence[Case]) -> None:
    """Raise :class:`RefusedError` unless this batch is new, whole and committed as it stands."""
    if any(row["batch"] == folder.name or row["sha256"] == digest(folder) for row in scores()):
        raise RefusedError(f"{folder.name} was scored before")
    if _git("status", "--porcelain", "--", str(folder), "src", str(PEER)):
        raise RefusedError("commit the batch and the sources before they are scored")
    seen = threads_known_before(folder)
    if known := sorted(case.url for case in cases if case.url in seen):
        raise RefusedError(f"these threads were seen before: {', '.join(known)}")


def threads_known_before(folder: Path) -> set[str]:
    """Threads of other batches and of our knowledge."""
    knowledge = ROOT / "src" / "unhang" / "knowledge"
    files = [*knowledge.rglob("*.toml"), *knowledge.rglob("*.tsv")]
    files += [path for path in BATCHES.glob("*/cases.jsonl") if path.parent.name != folder.name]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return set(re.findall(r"https://[^\s\"'<>)]+", text))


def scores() -> list[dict[str, Any]]:
    """Every line that was written."""
    return [json.loads(line) for line in SCORES.read_text("utf-8").splitlines()] if SCORES.exists() else []


def digest(folder: Path) -> str:
    """SHA-256 over names and contents of the whole batch."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix().encode()
        content = path.read_bytes()
        whole.update(b"%d %b %d " % (len(name), name, len(content)) + content)
    return whole.hexdigest()


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _print(row: dict[str, Any], ours: Sequence[tuple[Case, Answer]]) -> None:
    for case, answer in ours:
        if not _right(case, answer):
            truth = case.cause if case.scored else f"{case.cause} (not scored)"
            print(f"{case.kind:5s} {case.id}: {truth}; said {', '.join(answer.causes[:2])} {answer.certainty}")
    print(json.dumps({key: row[key] for key in ("batch", "commit", "ours", "peer")}, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
