"""Diagnose a folder of logs whose causes are known, beside a grep for well-known words in the same run.

    python -m benchmarks corpus --folder DIR             # the tables of docs/benchmarks.md
    python -m benchmarks corpus --folder DIR --pasted    # also: after everything that pasting does to a log

``DIR/cases.jsonl`` has an object a line: ``id``, ``log`` (a file or a folder, from DIR), ``cause``, ``accept`` (other
ids an expert would give), ``culprit_ranks`` (a list or null), ``determinable`` (``yes``, ``partial``, ``no``),
``scored`` (the cause is established and shows in the log). A fifth of the cases, chosen by the SHA-1 of their ids, is
held out: of those only sums are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.keyword_grep import grep


@dataclass(frozen=True, slots=True)
class Case:
    """One log and what an expert says of it."""

    id: str
    log: Path
    cause: str
    accepted: frozenset[str]
    ranks: frozenset[int]
    determinable: str
    scored: bool

    @property
    def held_out(self) -> bool:
        """Whether only sums may be printed of it."""
        return int(hashlib.sha1(self.id.encode()).hexdigest(), 16) % 5 == 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said of a case: causes in order, the certainty and ranks of the first. Where that is ``unknown``, and no
    better than *possible*, the first candidate counts in its place, with the rank that it would lie with: it is the
    best guess at both."""

    causes: tuple[str, ...]
    certainty: str = ""
    ranks: frozenset[int] = frozenset()
    summary: str = ""
    status: str = ""


Answered = Sequence[tuple[Case, Answer]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the cases, ask both, print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks corpus", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pasted", action="store_true", help="also in every shape of tests/paste_shapes.py")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    cases = read_cases(options.folder)
    with multiprocessing.Pool(options.jobs) as pool:
        ours = list(zip(cases, pool.map(diagnosed, [case.log for case in cases], chunksize=4), strict=True))
        peer = list(zip(cases, pool.map(grepped, [case.log for case in cases], chunksize=4), strict=True))
        _print_summary(ours, peer)
        _print_causes([pair for pair in ours if not pair[0].held_out], [pair for pair in peer if not pair[0].held_out])
        _print_confusions([pair for pair in ours if not pair[0].held_out])
        if options.pasted:
            _print_shapes(cases, ours, pool)
    return 0


def read_cases(folder: Path) -> list[Case]:
    """The cases of ``folder/cases.jsonl``."""
    found = []
    for line in (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        if not line.strip():
            continue
        told = json.loads(line)
        found.append(
            Case(
                told["id"],
                folder / told["log"],
                told["cause"],
                frozenset((told["cause"], *told.get("accept", ()))),
                frozenset(told.get("culprit_ranks") or ()),
                told["determinable"],
                bool(told["scored"]),
            )
        )
    return found


def diagnosed(log: Path) -> Answer:
    """What ``unhang diagnose`` says of a log."""
    from unhang.diagnosis.jobs import diagnose_jobs
    from unhang.diagnosis.remaining_rank import name_remaining_rank
    from unhang.errors import UnhangError
    from unhang.evidence.inputs import read_evidence
    from unhang.findings import Cause, Certainty, Grade

    try:
        job = diagnose_jobs(read_evidence([str(log)]))[0]
    except UnhangError as error:
        return Answer(("error",), summary=str(error))
    verdict = job.verdict
    if not verdict.findings:
        return Answer(("unknown",), status=verdict.status.value)
    first = verdict.findings[0]
    if first.cause is Cause.UNKNOWN and first.certainty is Certainty.POSSIBLE and verdict.differential:
        guess = replace(first, cause=verdict.differential[0].cause, grade=Grade.BASE_RATE)
        verdict = name_remaining_rank(job.facts, verdict.led_by(guess))
        first = verdict.findings[0]
    causes = tuple(finding.cause.value for finding in verdict.findings)
    return Answer(causes, first.certainty.value, frozenset(first.ranks), str(first.summary), verdict.status.value)


def grepped(log: Path) -> Answer:
    """What a grep says of it; it is never certain."""
    cause, ranks = grep(log)
    return Answer((cause,), ranks=frozenset(ranks))


# ---- marks


def right(case: Case, answer: Answer) -> bool:
    """The first cause is one that an expert would give."""
    return answer.causes[0] in case.accepted


def names_culprits(case: Case, answer: Answer) -> bool:
    """A culprit is among the ranks named, and hardly anybody else."""
    return bool(answer.ranks & case.ranks) and len(answer.ranks) <= max(len(case.ranks) + 1, 2)


def falsely_certain(case: Case, answer: Answer) -> bool:
    """Certain of a cause that no expert would give."""
    return answer.certainty == "certain" and not right(case, answer) and answer.causes[0] != "unknown"


def _share(marks: Iterable[bool]) -> str:
    held = list(marks)
    return f"{100 * sum(held) / len(held):.0f} % ({sum(held)}/{len(held)})" if held else "–"


# ---- tables


def _print_summary(ours: Answered, peer: Answered) -> None:
    print(f"\n### {len(ours)} logs, {sum(case.scored for case, _ in ours)} with an established cause that shows\n")
    print("| | cause right, first | among the first three | culprit ranks | keyword grep: cause | its ranks |")
    print("|---|---:|---:|---:|---:|---:|")
    for part, held_out in (
        ("all", (False, True)),
        ("without the held-out fifth", (False,)),
        ("held-out fifth", (True,)),
    ):
        for name, determinable in (("the log tells the cause", "yes"), ("the log tells it in part", "partial")):
            mine, theirs = (
                [(c, a) for c, a in pairs if c.held_out in held_out and c.scored and c.determinable == determinable]
                for pairs in (ours, peer)
            )
            print(
                f"| {part}: {name} | {_share(right(c, a) for c, a in mine)}"
                f" | {_share(bool(c.accepted & set(a.causes[:3])) for c, a in mine)}"
                f" | {_share(names_culprits(c, a) for c, a in mine if c.ranks)}"
                f" | {_share(right(c, a) for c, a in theirs)}"
                f" | {_share(names_culprits(c, a) for c, a in theirs if c.ranks)} |"
            )
    print()
    for part, is_held_out in (("all but the held-out fifth", False), ("held-out fifth", True)):
        mine = [(c, a) for c, a in ours if c.held_out == is_held_out]
        nobody = [(c, a) for c, a in mine if c.cause == "unknown"]
        hidden = [(c, a) for c, a in mine if c.determinable == "no"]
        print(
            f"- {part}: certain of a wrong cause {sum(falsely_certain(c, a) for c, a in mine)} of {len(mine)};"
            f" cause never found out: abstained {_share(a.causes[0] == 'unknown' for _, a in nobody)},"
            f" certain of anything {sum(a.certainty == 'certain' and a.causes[0] != 'unknown' for _, a in nobody)};"
            f" cause not in the log: certain of a wrong one {sum(falsely_certain(c, a) for c, a in hidden)}"
            f" of {len(hidden)}; not read: {sum(a.causes[0] == 'error' for _, a in mine)}"
        )


def _print_causes(ours: Answered, peer: Answered) -> None:
    print("\n### By cause (without the held-out fifth)\n")
    print("| cause | logs | right | wrong | `unknown` | keyword grep right |")
    print("|---|---:|---:|---:|---:|---:|")
    for cause in sorted({case.cause for case, _ in ours if case.scored}):
        mine = [(c, a) for c, a in ours if c.scored and c.cause == cause]
        good = sum(right(c, a) for c, a in mine)
        silent = sum(a.causes[0] == "unknown" and not right(c, a) for c, a in mine)
        theirs = sum(right(c, a) for c, a in peer if c.scored and c.cause == cause)
        print(f"| `{cause}` | {len(mine)} | {good} | {len(mine) - good - silent} | {silent} | {theirs} |")


def _print_confusions(ours: Answered) -> None:
    print("\n### Taken for something else (without the held-out fifth)\n")
    print("| it was | it said | how often | because it said |")
    print("|---|---|---:|---|")
    missed = [(c, a) for c, a in ours if c.scored and not right(c, a)]
    counts = Counter((case.cause, answer.causes[0]) for case, answer in missed)
    for (cause, said), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        reasons = dict.fromkeys(
            f"{a.summary} ({a.certainty})" for c, a in missed if (c.cause, a.causes[0]) == (cause, said)
        )
        print(f"| `{cause}` | `{said}` | {count} | {'; '.join(reasons).replace('|', chr(92) + '|')} |")


def _print_shapes(cases: Sequence[Case], ours: Answered, pool: multiprocessing.pool.Pool) -> None:
    from tests.paste_shapes import SHAPES

    print("\n### As people paste them\n")
    print("| what happened to the log | cause right | held-out fifth | other cause than of the log | falsely certain |")
    print("|---|---:|---:|---:|---:|")
    whole = {case.id: answer for case, answer in ours}
    rows: dict[str, list[str]] = {}
    for shape in ("nothing", *SHAPES):
        asked = partial(_diagnosed_as, shape)
        answers = list(zip(cases, pool.map(asked, [case.log for case in cases], chunksize=4), strict=True))
        scored = [(c, a) for c, a in answers if c.scored]
        other = sum(a.causes[0] not in (whole[c.id].causes[0], "unknown") for c, a in answers)
        row = (
            f"{_share(right(c, a) for c, a in scored if not c.held_out)}"
            f" | {_share(right(c, a) for c, a in scored if c.held_out)} | {other}"
            f" | {sum(falsely_certain(c, a) for c, a in answers)}"
        )
        rows.setdefault(row, []).append(shape)
    for row, shapes in rows.items():
        print(f"| {', '.join(shapes)} | {row} |", flush=True)


def _diagnosed_as(shape: str, log: Path) -> Answer:
    """``diagnosed`` of a copy of ``log`` in a shape of a paste."""
    from tests.paste_shapes import SHAPES, lines_of

    if shape == "nothing":
        return diagnosed(log)
    with tempfile.TemporaryDirectory(prefix="unhang-bench-") as scratch:
        target = Path(scratch) / log.name
        for file in sorted(log.rglob("*")) if log.is_dir() else [log]:
            if file.is_file():
                copy = target / file.relative_to(log) if log.is_dir() else target
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(SHAPES[shape](lines_of(file.read_bytes())))
        return diagnosed(target)


if __name__ == "__main__":
    raise SystemExit(main())
