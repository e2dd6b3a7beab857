"""Compare a verdict with what the case's fault must give. Tests and ``unhang lab run`` use it; rules never do."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from unhang.findings import Finding, Verdict, Where
from unhang.sentences import rank_ranges
from unhang_lab.lab_case import GUILTY_RANKS, LabCase

_BATCHES = re.compile(r"^(\d+) batches$", re.MULTILINE)


def find_mistakes(case: LabCase, bundle: Path, verdict: Verdict, *, watched: bool = False) -> list[str]:
    """One sentence for each thing the verdict has wrong; empty when it is right.

    ``watched``: the bundle is a run folder, taken while the job lived on.
    """
    expected = case.expected
    found = []
    right = expected_status(case, watched=watched)
    if verdict.status.value not in right:
        found.append(f"status is {verdict.status.value}, must be {' or '.join(right)}")
    if expected.cause is None:
        return found + [f"a healthy job got the finding {f.cause.value}" for f in verdict.findings if _accuses(f)]
    if not verdict.findings:
        return [*found, f"no finding, must be {expected.cause.value}"]
    first = verdict.findings[0]
    if first.cause is not expected.cause:
        found.append(f"cause is {first.cause.value}, must be {expected.cause.value}")
    return found + _wrong_ranks(case, bundle, first) + _wrong_lines(case, bundle, first)


def names_the_cause(told: Mapping[str, Any] | None, case: LabCase) -> bool:
    """Whether a verdict of ``unhang run`` names what is wrong in ``case``, of a job that is watched."""
    if not told or not told["findings"] or case.expected.cause is None:
        return False
    right = told["status"] in expected_status(case, watched=True)
    return right and told["findings"][0]["cause"] == case.expected.cause.value


def expected_status(case: LabCase, *, watched: bool) -> tuple[str, ...]:
    """The statuses that are right for this case."""
    return (watched and case.expected.watched) or case.expected.status


def expected_ranks(case: LabCase, bundle: Path, world: int) -> set[tuple[int, ...]]:
    """The answers that are right for this run."""
    if case.expected.fewest_batches:
        return {ranks_with_fewest_batches(bundle)}
    guilty = (case.expected.ranks, case.expected.also_ranks)
    return {GUILTY_RANKS[ranks](world) for ranks in guilty if ranks is not None}


def ranks_with_fewest_batches(bundle: Path) -> tuple[int, ...]:
    """Ranks whose log announces the fewest batches."""
    batches = {}
    for log in bundle.glob("logs/attempt_0/*/stdout.log"):
        if match := _BATCHES.search(log.read_text(errors="replace")):
            batches[int(log.parent.name)] = int(match[1])
    fewest = min(batches.values(), default=0)
    return tuple(sorted(rank for rank, count in batches.items() if count == fewest))


def lines_with(script: Path, code: str) -> set[int]:
    """Lines of ``script`` that begin with, or hold, this piece of code."""
    lines = enumerate(script.read_text().splitlines(), start=1)
    return {number for number, line in lines if code in line}


def _accuses(finding: Finding) -> bool:
    return finding.severity.value != "note"


def _wrong_ranks(case: LabCase, bundle: Path, finding: Finding) -> list[str]:
    world = int(json.loads((bundle / "bundle.json").read_bytes())["world_size"])
    answers = expected_ranks(case, bundle, world)
    if finding.ranks in answers:
        return []
    right = " or ".join(rank_ranges(answer) or "none" for answer in sorted(answers))
    return [f"ranks are {rank_ranges(finding.ranks) or 'none'}, must be {right}"]


def _wrong_lines(case: LabCase, bundle: Path, finding: Finding) -> list[str]:
    kept, expected = bundle / "source" / "train.py", case.expected
    script = kept if kept.exists() else case.path  # no frame of a rank that was killed names it
    right = {number for code in expected.where for number in lines_with(script, code)}
    right |= _lines_of_functions(script, expected.where_functions)
    waiting = {number for code in expected.waiter for number in lines_with(script, code)}
    found = []
    if right and not _is_at(finding.where, right):
        found.append(f"where is {_spoken(finding.where)}, must be line {rank_ranges(right)}")
    if waiting and not _is_at(finding.waiter_where, waiting):
        found.append(f"waiters are at {_spoken(finding.waiter_where)}, must be line {rank_ranges(waiting)}")
    return found


def _is_at(where: Where | None, lines: set[int]) -> bool:
    return where is not None and where.line in lines and Path(where.file).name == "train.py"


def _spoken(where: Where | None) -> str:
    return "nowhere" if where is None else f"{Path(where.file).name}:{where.line}"


def _lines_of_functions(script: Path, names: Collection[str]) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found
