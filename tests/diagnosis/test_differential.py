"""Where nothing is likely: candidates with shares, reasons and what settles them; nowhere else."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose, diagnose_from_evidence
from unhang.diagnosis.differential import feature_text
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Certainty, Grade, Verdict
from unhang.knowledge.known_incidents.incident_counts import (
    CountedIncident,
    cause_shares,
    count_features,
    load_counted_incidents,
)
from unhang.knowledge.reasoning_rows import cause_rows
from unhang.report.html.page import to_html
from unhang.report.markdown import to_markdown
from unhang.report.text import to_text
from unhang.report.verdict_document import to_json

TIMEOUTS = """\
[rank{rank}]:[E1121 03:32:36.192 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum={position}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800011 milliseconds \
before timing out.
"""


def verdict_on(folder: Path, text: str) -> Verdict:
    log = folder / "train.log"
    log.write_text(text, encoding="utf-8")
    return diagnose(build_facts(read_evidence([str(log)])))


@pytest.fixture
def unexplained(tmp_path: Path) -> Verdict:
    return verdict_on(tmp_path, "epoch 3 started\n" + TIMEOUTS.format(rank=1, position=7301))


def test_what_nothing_explains_has_candidates(unexplained: Verdict) -> None:
    assert 1 <= len(unexplained.differential) <= 3
    told = [candidate.share for candidate in unexplained.differential]
    assert told == sorted(told, reverse=True)
    assert 0 < sum(told) <= 1.01
    for candidate in unexplained.differential:
        assert str(candidate.settles)
        assert candidate.how


def test_the_first_candidate_leads_and_is_only_possible(unexplained: Verdict) -> None:
    first = unexplained.findings[0]

    assert first.cause is unexplained.differential[0].cause
    assert first.certainty is Certainty.POSSIBLE
    assert first.grade is Grade.BASE_RATE
    assert "timed out" in str(first.summary)


def test_what_is_likely_has_none(tmp_path: Path) -> None:
    verdict = verdict_on(
        tmp_path,
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "train.py", line 3, in <module>\n'
        "[rank0]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)\n",
    )

    assert verdict.findings[0].certainty is not Certainty.POSSIBLE
    assert verdict.differential == ()
    assert verdict.incidents == ()


def test_where_nothing_is_wrong_nothing_is_suspected(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, "step 1 loss 2.0\nstep 2 loss 1.9\nstep 3 loss 1.8\n")

    assert verdict.differential == ()
    assert verdict.findings[0].cause is Cause.UNKNOWN


def test_every_format_and_language_tells_them(unexplained: Verdict) -> None:
    cause = unexplained.differential[0].cause.value

    for lang, settle in (("en", "settle"), ("zh", "如何确认")):
        for write in (to_text, to_markdown, partial(to_html, facts=build_facts(EvidenceSet()))):
            said = write(unexplained, lang=lang)
            assert cause in said
            assert settle in said, (write, lang)
    document = json.loads(to_json(unexplained))
    assert document["differential"][0]["cause"] == cause
    assert set(document["differential"][0]) == {"cause", "share", "because", "settles", "how"}


def test_what_is_shown_is_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("epoch 3 started\n" + TIMEOUTS.format(rank=1, position=7301), encoding="utf-8")
    shown = diagnose_from_evidence(build_facts(read_evidence([str(log)])))

    assert shown.findings[0].grade is not Grade.BASE_RATE
    assert shown.differential == ()


def test_every_cause_can_be_settled() -> None:
    for cause in set(Cause) - {Cause.UNKNOWN}:
        row = cause_rows()[cause]
        assert row.settles
        assert row.how


def test_counted_incidents_are_sound() -> None:
    rows = load_counted_incidents()

    assert len(rows) >= 150
    assert len({row.id for row in rows}) == len(rows)
    assert {row.cause for row in rows} <= {cause.value for cause in Cause} - {"unknown"}
    assert all(row.link.startswith("https://") for row in rows)
    assert all(" " not in feature for row in rows for feature in row.features)


def test_what_incidents_look_like_tells_more_than_how_frequent_they_are() -> None:
    rows = load_counted_incidents()
    told = [_left_out(row, rows) for row in rows]
    usual = count_features(rows).causes.most_common(1)[0][1]

    assert sum(first for first, _ in told) > 2 * usual
    assert sum(three for _, three in told) > 0.6 * len(rows)


def _left_out(row: CountedIncident, rows: tuple[CountedIncident, ...]) -> tuple[bool, bool]:
    found = [
        share.cause
        for share in cause_shares(row.features, count_features(tuple(other for other in rows if other is not row)))
    ]
    return found[0] == row.cause, row.cause in found[:3]


def test_reasons_are_said_in_words() -> None:
    assert str(feature_text("op:all_reduce")) == "ranks waited in all_reduce"
    assert feature_text("found:unknown:possible") is None
