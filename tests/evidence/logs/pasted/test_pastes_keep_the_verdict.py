"""The verdict on a log is the verdict on its paste: the same, or weaker; never a cause that the log's does not name.

A clock of the paste's own may make likely what was possible: it tells who was first. It makes nothing certain.

Every log of ``tests/cases`` goes through shapes of ``paste_shapes``: a sample here, all of them with ``-m live``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest

from tests.paste_shapes import LOSSY, SHAPES, STAMPED, lines_of
from unhang.findings import Cause, Certainty, Status, Verdict

CASES = Path(__file__).parents[3] / "cases"
SAMPLE, PAIRS = 16, 30
"""One of so many shapes of each log is tried in the quick tests, and one of so many pairs of a log and a shape."""


def logs() -> list[Path]:
    """The cases that are one log."""
    files = [[path for path in folder.rglob("*") if path.is_file()] for folder in sorted(CASES.glob("*/*/input"))]
    return [found[0] for found in files if len(found) == 1 and found[0].suffix == ".log"]


def name_of(log: Path) -> str:
    return "/".join(log.relative_to(CASES).parts[:2])


def decide(content: bytes, folder: Path) -> Verdict:
    from unhang.diagnosis.diagnose import diagnose
    from unhang.evidence.inputs import read_evidence
    from unhang.facts.build import build_facts

    path = folder / "job.log"
    path.write_bytes(content)
    return diagnose(build_facts(read_evidence([str(path)])))


@cache
def of_whole_lines(log: Path) -> Verdict:
    """On the log itself, which every shape of it is held against."""
    with TemporaryDirectory() as folder:
        return decide("".join(f"{line}\n" for line in lines_of(log.read_bytes())).encode(), Path(folder))


def lead(verdict: Verdict) -> tuple[str, Certainty, frozenset[int]]:
    if not verdict.findings:
        return "", Certainty.POSSIBLE, frozenset()
    first = verdict.findings[0]
    return first.cause.value, first.certainty, frozenset(first.ranks)


def also_said(verdict: Verdict, ranks: frozenset[int]) -> frozenset[str]:
    """What may lead in a paste whose lines are torn: what followed from the cause, or just that a rank crashed."""
    crashed = {Cause.RANK_CRASHED.value} if verdict.status is Status.CRASH and ranks else set()
    followed = {one.cause.value for finding in verdict.findings for one in finding.consequences}
    return frozenset((*crashed, *followed))


def stronger(log: Path, shape: str, folder: Path) -> str:
    """What the paste claims beyond the log; empty when nothing."""
    said = of_whole_lines(log)
    cause, certainty, ranks = lead(said)
    got, sure, named = lead(decide(SHAPES[shape](lines_of(log.read_bytes())), folder))
    told = f"{name_of(log)}, {shape}: {got} {sure.value} {sorted(named)}, was {cause} {certainty.value} {sorted(ranks)}"
    if shape in LOSSY and (got != cause or not named <= ranks):
        # of a few lines of a log another cause may look best, and another rank may be all that is seen; not certain
        return "" if sure is not Certainty.CERTAIN else told
    # Nor the same cause: what spoke against it may stand in another line, or the clock speak for it.
    most = max(certainty.order, Certainty.LIKELY.order) if shape in STAMPED | LOSSY else certainty.order
    if got != cause and got in ("", "unknown"):
        return ""
    if sure.order > most or not named <= ranks:
        return told
    return "" if got == cause or got in also_said(said, ranks) else told


@pytest.mark.parametrize("log", logs(), ids=name_of)
def test_a_paste_claims_nothing_that_its_log_does_not(log: Path, tmp_path: Path) -> None:
    start = crc32(name_of(log).encode()) % SAMPLE

    assert [told for shape in list(SHAPES)[start::SAMPLE] if (told := stronger(log, shape, tmp_path))] == []


def test_nearly_every_log_keeps_its_verdict_in_every_shape(tmp_path: Path) -> None:
    pairs = [
        (log, shape)
        for log in logs()
        for shape in SHAPES
        if shape not in LOSSY and crc32(f"{name_of(log)} {shape}".encode()) % PAIRS == 0
    ]
    lost = [
        f"{name_of(log)}, {shape}"
        for log, shape in pairs
        if lead(decide(log.read_bytes(), tmp_path)) != lead(decide(SHAPES[shape](lines_of(log.read_bytes())), tmp_path))
    ]

    assert len(pairs) > 50
    assert len(lost) * 10 <= len(pairs), lost


@pytest.mark.live
@pytest.mark.parametrize("shape", SHAPES)
def test_no_paste_of_any_log_claims_more(shape: str, tmp_path: Path) -> None:
    assert [told for log in logs() if (told := stronger(log, shape, tmp_path))] == []
