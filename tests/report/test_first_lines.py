"""What is read in the first seconds: one claim, where and since when, what to do; the same in every output."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from tests.report import fact_samples
from tests.report import report_samples as samples
from unhang.findings import Verdict
from unhang.report.html.page import to_html
from unhang.report.markdown import to_markdown
from unhang.report.text import to_text


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_headline_is_one_line_of_at_most_80_columns(verdict: Verdict, width: int, lang: str) -> None:
    head, *below = to_text(verdict, fact_samples.facts(), width=width, lang=lang).splitlines()

    assert cell_len(head) <= min(width, 80)
    assert not below[0] or below[0].startswith(" " * 6), below[:3]


def test_below_it_stand_cause_place_time_and_what_is_missing_and_then_what_to_do() -> None:
    missing = replace(samples.hang(), ranks_seen=(0, 1, 2, 3), ranks_missing=(4, 5, 6, 7), killed_in_s=1740.0)
    lines = to_text(missing).splitlines()

    assert lines[:4] == [
        "HANG  Rank 3 ran out of batches at step 1041 and left the loop",
        "      The others wait for it in all_reduce.",
        "      uneven-data · certain · gpu-a17 · train.py:26 · since 03-02 04:11:09+08:00",
        "      no data from ranks 4-7 · the wait times out in 29 min",
    ]
    assert lines[4].startswith("Next  Give the split of the files one seed")


def test_unknown_has_no_certainty_and_no_id_where_people_read() -> None:
    unknown = samples.unknown()

    for said in (to_text(unknown), to_markdown(unknown), to_html(unknown, fact_samples.facts())):
        above = said.partition("A link may have failed")[0]
        assert "outlasted its limit" in above
        assert "possible" not in above.replace("network-fault (possible)", "").replace(
            '<strong>network-fault</strong> <span class="muted">possible</span>', ""
        )


def test_a_price_and_a_check_are_named_only_where_there_are_some() -> None:
    verdict = samples.hang()
    (remedy,) = verdict.findings[0].remedies
    free = replace(remedy, cost=replace(remedy.cost, template=""), verify=replace(remedy.verify, template=""))
    led = verdict.led_by(replace(verdict.findings[0], remedies=(free,)))

    for write in (to_text, to_markdown):
        assert "Costs: " in write(verdict)
        assert "Check: " in write(verdict)
        assert "Costs" not in write(led)
        assert "Check: " not in write(led)


def test_at_most_four_reasons_and_the_rest_is_counted() -> None:
    verdict = samples.hang()
    many = verdict.led_by(replace(verdict.findings[0], because=verdict.findings[0].because * 2))

    text = to_text(many)
    why = text.partition("Why\n")[2].partition("\n\n")[0]
    assert why.count("•") == 4
    assert "and 2 more" in why
