"""The verdict on a log is the verdict on its paste: the same, or weaker; never another cause.

Every log of ``tests/cases`` goes through shapes of ``paste_shapes``: a sample here, all of them with ``-m live``.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from tests.paste_shapes import LOSSY, SHAPES, lines_of

from unhang.findings import Certainty, Verdict

CASES = Path(__file__).parents[1] / "cases"
SAMPLE, PAIRS = 16, 30
"""One of so many shapes of each log is tried in the quick tests, and one of so many pairs of a log and a shape."""


def logs() -> list[Path]:
    """The cases that are one log."""
    files = [[path for path in folder.rglob("*") if path.is_file()] for folder in sorted(CASES.glob("*/*/input"))]
    return [found[0] for found in files if len(found) == 1 and found[0].suffix == ".log"]


def name_of(log: Path) -> str:
    return "/".join(log.relative_to(CASES).parts[:2])


def decide(content: bytes, folder: Path) -> Verdict:
    from unhang.diagnosis.diagnose import what_is_shown
    from unhang.evidence.inputs import read_evidence
    from unhang.facts.build import build_facts

    path = folder / "job.log"
    path.write_bytes(content)
    return what_is_shown(build_facts(read_evidence([str(path)])))


def lead(verdict: Verdict) -> tuple[str, Certainty, frozenset[int]]:
    if not verdict.findings:
        return "", Certainty.POSSIBLE, frozenset()
    first = verdict.findings[0]
    return first.cause.value, first.certainty, frozenset(first.ranks)


def stronger(log: Path, shape: str, folder: Path) -> str:
    """What the paste claims beyond the log; empty when nothing."""
    lines = lines_of(log.read_bytes())
    cause, certainty, ranks = lead(decide("".join(f"{line}\n" for line in lines).encode(), folder))
    got, sure, named = lead(decide(SHAPES[shape](lines), folder))
    told = f"{name_of(log)}, {shape}: {got} {sure.value} {sorted(named)}, was {cause} {certainty.value} {sorted(ranks)}"
    if got != cause:
        # Of a few lines of a log another cause may look best, but not certain.
        allowed = sure is not Certainty.CERTAIN if shape in LOSSY else got in ("", "unknown")
        return "" if allowed else told
    return told if sure.order > certainty.order or not named <= ranks else ""


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
