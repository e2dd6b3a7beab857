"""What is said first where the cause is not known: who waits where, who is missing; in both languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.report.localizer import Localizer

CASES = Path(__file__).parents[2] / "cases" / "unknown"
HEADLINES = {
    "hit_log_the_missing_rank_is_a_gap": (
        "Rank 2 is missing: ranks 0, 1, 3 timed out in all_reduce #2665572",
        "缺 rank 2：rank 0、1、3 在 all_reduce #2665572 里超时",
    ),
    "hit_log_filtered_by_local_rank": (
        "Ranks 0, 3 timed out in all_reduce #12",
        "rank 0、3 在 all_reduce #12 里超时",
    ),
    "hit_log_of_one_node_only": (
        "Ranks 8-15 timed out in all_reduce #80078",
        "rank 8-15 在 all_reduce #80078 里超时",
    ),
    "hit_log_all_timed_out_in_one_call": (
        "All 2 ranks in this log timed out in the same all_reduce (#6)",
        "日志里的 2 个 rank 全部在同一个 all_reduce（#6）上超时",
    ),
    "hit_all_joined_behind_a_kernel_of_the_program": (
        "All 2 ranks joined all_reduce #6 and none finished it",
        "全部 2 个 rank 都进入了 all_reduce #6，没有一个完成",
    ),
    "hit_laggard_without_a_stack": (
        "Rank 3 is behind: ranks 0-2 wait in all_reduce #41",
        "rank 3 落后：rank 0-2 停在 all_reduce #41 里",
    ),
    "hit_log_two_timeouts_one_incident": (
        "Ranks 1, 2 timed out in all_reduce #41; rank 0 reported no timeout",
        "rank 1、2 在 all_reduce #41 里超时；rank 0 没有报告超时",
    ),
    "hit_log_of_vllm_names_no_cause": (
        "No line explains this error: ERROR 12-29 03:16:20 [core.py:780] EngineCore failed to start.",
        "没有哪一行说明这个错误的原因：ERROR 12-29 03:16:20 [core.py:780] EngineCore failed to start.",
    ),
}


@pytest.mark.parametrize("name", HEADLINES)
def test_it_says_who_waits_where_and_who_is_missing(name: str) -> None:
    facts = build_facts(read_evidence([str(CASES / name / "input")]))
    verdict = diagnose(facts)

    for lang, wanted in zip(("en", "zh"), HEADLINES[name], strict=True):
        assert Localizer(lang).sentence(verdict.findings[0].summary) == wanted
