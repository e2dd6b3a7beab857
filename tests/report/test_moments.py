"""No report shows a year or a zone that no line of the evidence has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.report.html.page import to_html
from unhang.report.markdown import to_markdown
from unhang.report.text import to_text
from unhang.report.verdict_document import to_json

TIMEOUT = (
    "[rank{rank}]:{time} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=12, NumelOut=12, Timeout(ms)=1800000) ran for 1800012 milliseconds "
    "before timing out.\n"
)
GLOG = "[E1009 08:53:20.123456789"
A_YEAR = re.compile(r"(?<!\d)(19|20)\d\d-\d\d-\d\d")
A_ZONE = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d| ?UTC)")


def shown(folder: Path, log: str) -> dict[str, str]:
    """What every report prints of ``log``."""
    (folder / "job.log").write_text(log, encoding="utf-8")
    facts = build_facts(read_evidence([str(folder / "job.log")]))
    verdict = diagnose(facts)
    return {
        "text": to_text(verdict, facts),
        "json": to_json(verdict),
        "markdown": to_markdown(verdict),
        "html": to_html(verdict, facts),
    }


def made_of(reports: dict[str, str], evidence: str, pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """By report, what looks like ``pattern`` and stands in no line that was read."""
    found = {form: [m[0] for m in pattern.finditer(report)] for form, report in reports.items()}
    return {form: new for form, all_ in found.items() if (new := [one for one in all_ if one not in evidence])}


@pytest.mark.parametrize("ranks", [(0,), (0, 1), (1, 2, 3)])
def test_lines_without_a_year_make_no_year(tmp_path: Path, ranks: tuple[int, ...]) -> None:
    log = "".join(TIMEOUT.format(rank=rank, time=GLOG) for rank in ranks)
    reports = shown(tmp_path, log)

    assert made_of(reports, log, A_YEAR) == {}
    assert made_of(reports, log, A_ZONE) == {}
    assert "10-09 08:23:20" in reports["text"]


@pytest.mark.parametrize("before", ["", "2026-10-09 08:20:00 INFO starting\n"])
@pytest.mark.parametrize("time", ["2026-10-09 08:53:20,123 ", "2026-10-09T08:53:20.123 "])
def test_lines_with_a_year_and_no_zone_make_no_zone(tmp_path: Path, before: str, time: str) -> None:
    log = before + "".join(time + TIMEOUT.format(rank=rank, time=GLOG) for rank in (0, 1))
    reports = shown(tmp_path, log)

    assert made_of(reports, log, A_ZONE) == {}
    assert "since 10-09 08:23:20" in reports["text"]
    assert "2026-10-09 08:23:20" in reports["json"]


def test_a_year_of_another_line_of_the_log_is_told(tmp_path: Path) -> None:
    log = "2025-10-09 08:20:00 INFO starting\n" + TIMEOUT.format(rank=0, time=GLOG) + TIMEOUT.format(rank=1, time=GLOG)

    assert "2025-10-09 08:23:20" in shown(tmp_path, log)["json"]


def test_a_zone_that_the_lines_have_is_told(tmp_path: Path) -> None:
    log = "".join(f"2026-10-09T08:53:20.123+08:00 {TIMEOUT.format(rank=rank, time=GLOG)}" for rank in (0, 1))

    reports = shown(tmp_path, log)
    assert "since 10-09 00:23:20 UTC" in reports["text"]
    assert "2026-10-09T00:23:20+00:00" in reports["json"]
