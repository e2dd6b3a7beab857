from __future__ import annotations

import pytest
from rich.cells import cell_len

from unhang.report.layout.claims import split_claim


@pytest.mark.parametrize(
    ("text", "head", "rest"),
    [
        ("Rank 2 timed out", "Rank 2 timed out", ""),
        (
            "Rank 2 holds the others up; what it was doing is not recorded; its log ends at step 4",
            "Rank 2 holds the others up; what it was doing is not recorded",
            "Its log ends at step 4",
        ),
        (
            "Ranks 9, 14 hold the others up: the device has not run what the peers have finished",
            "Ranks 9, 14 hold the others up",
            "the device has not run what the peers have finished",
        ),
        (
            "The kernel of node gpu-b04 reports that ranks 0, 3, 5 lost their card and nobody reached it again",
            "The kernel of node gpu-b04 reports that ranks 0, 3, 5 lost their card",
            "and nobody reached it again",
        ),
        (
            "rank 3、7 没有进入集合通信 all_reduce，其他 rank 一直在等它们；日志到此为止，再没有别的内容",
            "rank 3、7 没有进入集合通信 all_reduce，其他 rank 一直在等它们",
            "日志到此为止，再没有别的内容",
        ),
    ],
)
def test_a_long_summary_is_cut_at_a_claim(text: str, head: str, rest: str) -> None:
    assert split_claim(text, 74) == (head, rest)


@pytest.mark.parametrize("text", ["word " * 40, "字" * 90, "x" * 200, "a.b: " + "c" * 100])
def test_what_has_no_claim_is_cut_between_words_and_nothing_is_lost(text: str) -> None:
    head, rest = split_claim(text, 74)

    assert cell_len(head) <= 74
    assert "".join((head + rest).split()) == "".join(text.split())
