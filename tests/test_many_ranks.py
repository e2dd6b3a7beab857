"""The work of a verdict grows with the bytes that were read, not with ranks or groups squared."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.many_ranks import DUMPS, SHAPES, write_shape
from tests.work import calls_of
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.alignment.swapped_group_order import swapped_groups
from unhang.facts.build import build_facts
from unhang.report.html.page import to_html
from unhang.report.markdown import to_markdown
from unhang.report.redaction.redact import Redactor
from unhang.report.text import to_text
from unhang.report.verdict_document import to_json

FEW, TIMES = 1_500, 4
AT_MOST = 1.2
"""So many times the calls that bytes alone explain may it make; a loop over all pairs makes ``TIMES`` times as many."""


def everything(place: Path) -> None:
    """From the file to every output in both languages."""
    facts = build_facts(read_evidence([str(place)]))
    verdict = diagnose(facts)
    for lang in ("en", "zh"):
        redactor = Redactor(share=True)
        redactor.learn_from(verdict, facts)
        to_text(verdict, facts, lang=lang, redactor=redactor)
        to_json(verdict, lang=lang, redactor=redactor)
        to_markdown(verdict, lang=lang, redactor=redactor)
        to_html(verdict, facts, lang=lang, redactor=redactor)


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_with_bytes(shape: str, tmp_path: Path) -> None:
    few, many = (write_shape(tmp_path, shape, count) for count in (FEW, FEW * TIMES))
    everything(few)  # patterns and tables are made once
    assert calls_of(lambda: everything(many)) <= calls_of(lambda: everything(few)) * TIMES * AT_MOST


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
