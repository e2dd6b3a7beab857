"""Small promises about how things are shown: paths, sentences, source lines, ranks."""

from __future__ import annotations

import pytest

from tests.report import fact_samples
from tests.report import report_samples as samples
from unhang.findings import Where
from unhang.report.labels import short_ranks
from unhang.report.layout.source_lines import source_lines
from unhang.report.localizer import Localizer
from unhang.report.printable import one_line, printable
from unhang.report.redaction.shown_paths import common_folder, without_library_roots
from unhang.sentences import say


def test_a_folder_all_share_is_found_by_whole_names() -> None:
    assert common_folder(["/data/run_7/logs/0.log", "/data/run_7/dumps/1"]) == "/data/run_7/"
    assert common_folder(["/data/runs_71/0.log", "/data/run_72/0.log"]) == ""
    assert common_folder(["/data/run_7/logs/0.log"]) == ""
    assert common_folder(["logs/0.log", "/data/run_7/1.log"]) == ""


def test_library_paths_are_shown_from_the_module_on() -> None:
    text = "barrier (/opt/env/lib/python3.11/site-packages/torch/x.py:5) < main (/home/a/train.py:3)"
    assert without_library_roots(text) == "barrier (torch/x.py:5) < main (/home/a/train.py:3)"


@pytest.mark.parametrize(
    ("template", "spoken"),
    [
        ("rank 3 left", "Rank 3 left"),
        ("loss.backward waits", "loss.backward waits"),
        ("all_gather waits", "all_gather waits"),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_name(template: str, spoken: str) -> None:
    assert Localizer().sentence(say(template)) == spoken


def test_many_ranks_are_cut_with_their_number() -> None:
    assert short_ranks(range(0, 1000, 2), 20) == "0, 2, 4, 6, 8, 10, … (500)"


def test_source_lines_stand_around_the_place_and_stop_at_the_ends() -> None:
    lines = source_lines(fact_samples.facts(), Where(samples.TRAIN, 1, "<module>"))
    assert [(line.number, line.hit) for line in lines] == [(1, True), (2, False), (3, False)]
    assert source_lines(fact_samples.facts(), Where(samples.TRAIN, 4000, "x")) == ()
    assert source_lines(fact_samples.facts(), Where("/elsewhere/other.py", 3, "x")) == ()


def test_what_cannot_be_shown_is_taken_out() -> None:
    assert printable("a\x1b[31mb\x1b]0;title\x07c\x00d\u202ee") == "abcde"
    assert printable("half \udcff pair") == "half \ufffd pair"
    assert one_line("  a\r\n b\tc  ", 4) == "a b…"
