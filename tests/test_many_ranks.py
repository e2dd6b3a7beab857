"""The time of a verdict grows with the bytes that were read, not with ranks or groups squared."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.many_ranks import DUMPS, SHAPES, write_shape
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.alignment.swapped_group_order import swapped_groups
from unhang.facts.build import build_facts
from unhang.report.html.page import to_html
from unhang.report.json import to_json
from unhang.report.markdown import to_markdown
from unhang.report.redaction.redact import Redactor
from unhang.report.text import to_text

FEW, TIMES = 1_500, 4
AT_MOST = 2.0
"""So many times as long as bytes alone explain may it take; a loop over all pairs takes ``TIMES`` times as long."""
START_S = 0.15
"""What a measurement may vary by itself."""


def seconds(place: Path) -> float:
    """Processor time from the file to every output in both languages."""
    begun = time.process_time()
    facts = build_facts(read_evidence([str(place)]))
    verdict = diagnose(facts)
    for lang in ("en", "zh"):
        redactor = Redactor(share=True)
        redactor.learn_from(verdict, facts)
        to_text(verdict, facts, lang=lang, redactor=redactor)
        to_json(verdict, lang=lang, redactor=redactor)
        to_markdown(verdict, lang=lang, redactor=redactor)
        to_html(verdict, facts, lang=lang, redactor=redactor)
    return time.process_time() - begun


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_bytes(shape: str, tmp_path: Path) -> None:
    few, many = (write_shape(tmp_path, shape, count) for count in (FEW, FEW * TIMES))
    seconds(few)  # patterns and tables are made once
    short = seconds(few)
    assert seconds(many) <= (short + START_S) * TIMES * AT_MOST


@pytest.mark.parametrize("shape", DUMPS)
def test_many_groups_in_one_order_are_not_swapped(shape: str, tmp_path: Path) -> None:
    facts = build_facts(read_evidence([str(write_shape(tmp_path, shape, 400))]))
    assert len(facts.groups) == 100
    assert swapped_groups(facts) is None
    one, other = facts.groups["17"].entries[2], facts.groups["58"].entries[2]
    one.record_id[0], other.record_id[0] = int(other.record_id[0]), int(one.record_id[0])
    swap = swapped_groups(facts)
    assert swap is not None
    assert {swap.first, swap.second} & {"17", "58"}
    assert (2,) in (swap.first_ranks, swap.second_ranks)


def test_a_rank_with_five_digits_is_that_rank_and_none_of_the_many_is_missing(tmp_path: Path) -> None:
    """Each of 11,000 ranks says once that it timed out: a flood in which every line is new."""
    log = tmp_path / "job.log"
    said = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    said += "Timeout(ms)=600000) ran for 600001 milliseconds before timing out."
    cpp = "[E1122 10:00:00.000000 7 ProcessGroupNCCL.cpp:616]"
    log.write_text("".join(f"[rank{rank}]:{cpp} [Rank {rank}] {said}\n" for rank in range(11_000)), encoding="utf-8")

    facts = build_facts(read_evidence([str(log)]))
    finding = diagnose(facts).findings[0]

    assert sorted(facts.ranks) == list(range(11_000))
    assert finding.ranks == ()
