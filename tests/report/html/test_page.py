from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.report import fact_samples
from tests.report import report_samples as samples
from tests.work import calls_of
from unhang.evidence.items import Signature
from unhang.facts.model import AllJoinedStall, CallMismatch
from unhang.findings import Status, Verdict
from unhang.report.html.late_ranks import late_ranks
from unhang.report.html.page import stuck_collectives, to_html, write_html
from unhang.report.html.timeline import timelines
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_nothing_refers_outside_the_file(verdict: Verdict) -> None:
    page = to_html(verdict, fact_samples.facts(nasty=True))
    for tag, attributes in Elements(page).seen:
        for name in ("src", "srcset", "href", "action", "data", "poster", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith("#"), (tag, attributes)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_hostile_text_never_becomes_markup_or_script() -> None:
    page = to_html(samples.hostile(), fact_samples.facts(nasty=True))
    elements = Elements(page).seen
    assert [attributes.get("type") for tag, attributes in elements if tag == "script"] == ["application/json", None]
    assert not [tag for tag, _ in elements if tag in {"img", "iframe", "object", "embed", "base", "form"}]
    handlers = [name for _, attributes in elements for name in attributes if name.startswith("on")]
    assert not handlers
    assert "49" not in re.findall(r"\{\{.*?\}\}", page)
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_the_policy_allows_exactly_the_own_style_and_script() -> None:
    page = to_html(samples.hang(), fact_samples.facts())
    policy = next(a["content"] for t, a in Elements(page).seen if t == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert len(re.findall("'sha256-", policy)) == 2


def test_links_lead_to_lines_that_are_there(verdict: Verdict) -> None:
    elements = Elements(to_html(verdict, fact_samples.facts())).seen
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {str(a["href"])[1:] for t, a in elements if t == "a"}
    assert targets <= set(ids)
    assert verdict.status is not Status.HANG or any(target.startswith("L") for target in targets)


def test_the_file_is_private_and_appears_whole(tmp_path: Path) -> None:
    path = write_html(samples.hang(), fact_samples.facts(), tmp_path / "report.html")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text("utf-8").rstrip().endswith("</html>")


def test_the_same_verdict_gives_the_same_bytes() -> None:
    assert to_html(samples.hang(), fact_samples.facts()) == to_html(samples.hang(), fact_samples.facts())


def test_redaction_reaches_the_whole_page() -> None:
    page = to_html(samples.hang(), fact_samples.facts(), redactor=Redactor(share=True))
    for private in ("mlee", "gpu-a17", "gpu-a00", "pretrain"):
        assert private not in page


def test_secrets_never_reach_the_page() -> None:
    page = to_html(samples.hostile(), fact_samples.facts(nasty=True))
    assert "hunter2" not in page
    assert "0123456789abcdef" not in page


def test_the_timeline_holds_the_stall_and_the_laggard() -> None:
    group = timelines(fact_samples.facts(64), frozenset({3}), Localizer())[0]
    assert group["name"] == "default_pg"
    assert group["stalled"] is True
    assert group["stall"] == 1042
    assert 1041 in group["columns"]
    assert [row[0] for row in group["rows"] if row[3] == "laggard"] == [3]
    assert group["calls"]["1042"] == "all_reduce · 25,600,000 × bfloat16"
    assert json.dumps(group)


def test_empty_facts_still_give_a_page() -> None:
    page = to_html(samples.healthy(), fact_samples.nothing())
    assert "Nothing is wrong, and the evidence shows it." in page
    assert "No stacks were found." in page


def test_a_thousand_ranks_take_no_more_work_each_and_stay_small() -> None:
    pages: dict[int, str] = {}

    def write(ranks: int) -> None:
        pages[ranks] = to_html(samples.hang(ranks), fact_samples.facts(ranks))

    write(100)  # templates are read once
    assert calls_of(lambda: write(1000)) < 10 * calls_of(lambda: write(100))
    assert len(pages[1000]) < 1_000_000


def test_a_folder_that_is_not_there_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        write_html(samples.hang(), fact_samples.facts(), tmp_path / "missing" / "report.html")


def test_ranks_that_disagree_are_said_in_one_sentence() -> None:
    facts = fact_samples.facts()
    broadcast = Signature("broadcast", None, ((4,),), ((4,),), ("float",), ("float",))
    barrier = Signature("barrier", None, (), (), (), ())
    calls = {broadcast: (1, 2, 3), barrier: (0,)}
    facts.mismatches = (CallMismatch("0", 7, calls, {}, ("operation",), (0,), True),)
    facts.all_joined_stalls = (AllJoinedStall("0", 9, "all_reduce", (0, 1, 2, 3), {}),)
    first, second = stuck_collectives(facts, Localizer())
    assert first == "Different calls at position 7 of default_pg: rank 0: barrier; ranks 1-3: broadcast · 4 × float."
    assert second == "All of ranks 0-3 joined all_reduce at position 9 of default_pg, and none finished it."


def test_a_rank_that_only_does_p2p_stands_at_its_pending_call() -> None:
    facts = fact_samples.facts()
    progress = facts.groups["0"].progress[1]
    assert progress.pending is not None
    call = replace(progress.pending, operation="recv", position=13)
    only_p2p = replace(progress, enqueued=-1, completed=-1, pending=call)
    facts.groups = {"0": replace(facts.groups["0"], progress={**facts.groups["0"].progress, 1: only_p2p})}
    row = next(row for row in timelines(facts, frozenset(), Localizer())[0]["rows"] if row[0] == 1)
    assert row[1:3] == [13, 12]


def test_the_verdict_decides_whom_the_page_points_at() -> None:
    facts = fact_samples.facts()
    assert late_ranks(samples.hang(), facts) == {3}
    everybody = replace(samples.hang().findings[0], ranks=tuple(range(8)))
    assert late_ranks(replace(samples.hang(), findings=(everybody,)), facts) == {3}
    assert late_ranks(samples.healthy(), facts) == {3}
