"""Where nothing is likely: candidates with shares, reasons and what settles them, as background; nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.diagnosis.differential import feature_text
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Certainty, Verdict
from unhang.knowledge.known_incidents.incident_counts import (
    CountedIncident,
    cause_shares,
    count_features,
    load_counted_incidents,
)
from unhang.knowledge.reasoning_rows import cause_rows, causes_that
from unhang.report.html.page import to_html
from unhang.report.labels import background_text
from unhang.report.markdown import to_markdown
from unhang.report.text import to_text
from unhang.report.verdict_document import to_json

CASES = Path(__file__).parents[1] / "cases"
DUMPS = "hit_all_joined_dumps_only"
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


def test_no_candidate_becomes_a_finding(unexplained: Verdict) -> None:
    first = unexplained.findings[0]

    assert first.cause is Cause.UNKNOWN
    assert first.certainty is Certainty.POSSIBLE
    assert "timed out" in str(first.summary)
    assert not {finding.cause for finding in unexplained.findings} & {c.cause for c in unexplained.differential}


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


def test_every_format_and_language_tells_them_last_and_as_background(unexplained: Verdict) -> None:
    cause = unexplained.differential[0].cause.value

    for lang, heading, why in (
        ("en", "Common causes of similar logs, not a diagnosis", "The limit in force"),
        ("zh", "相似日志的常见原因，不是诊断", "实际生效的时限"),
    ):
        for write in (to_text, to_markdown, partial(to_html, facts=build_facts(EvidenceSet()))):
            said = write(unexplained, lang=lang)
            above, _, below = said.partition(heading)
            assert cause in below, (write, lang)
            assert cause not in above, (write, lang)
            assert why in above, (write, lang)
    document = json.loads(to_json(unexplained))
    assert document["differential"][0]["cause"] == cause
    assert set(document["differential"][0]) == {"basis", "cause", "share", "because", "settles", "how"}
    assert {candidate["basis"] for candidate in document["differential"]} == {"incidents"}


def test_shares_are_said_in_words(unexplained: Verdict) -> None:
    one = unexplained.differential[0]

    for share, words in ((0.05, "1 in 20"), (0.14, "1 in 7"), (0.33, "1 in 3"), (0.4, "2 in 5"), (0.95, "9 in 10")):
        assert f"about {words} similar" in str(background_text(replace(one, share=share)))


def test_dumps_alone_have_none() -> None:
    """Counted were logs. Real dumps of a job at call 7474 got causes of jobs that had not made a step."""
    facts = build_facts(read_evidence([str(CASES / "unknown" / DUMPS / "input")]))

    assert facts.groups
    assert diagnose(facts).differential == ()


def test_no_cause_of_the_start_after_steps(tmp_path: Path) -> None:
    late = verdict_on(tmp_path, TIMEOUTS.format(rank=1, position=7301))

    assert not {candidate.cause for candidate in late.differential} & causes_that("at-start")
    assert "no step had been completed" not in " ".join(str(why) for one in late.differential for why in one.because)


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
