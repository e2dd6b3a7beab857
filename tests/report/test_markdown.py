from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.report import report_samples as samples
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import (
    Cause,
    Certainty,
    Evidence,
    Finding,
    KnownIncident,
    Remedy,
    RemedyKind,
    Severity,
    Source,
    Verdict,
    Where,
)
from unhang.report.layout.markdown_text import escape_markdown, inline_code, inline_text
from unhang.report.localizer import Localizer
from unhang.report.markdown import to_markdown
from unhang.report.redaction.redact import Redactor
from unhang.sentences import say


def test_it_is_short_enough_for_a_chat(verdict: Verdict) -> None:
    assert len(to_markdown(verdict).splitlines()) <= 30


def test_the_administrator_gets_node_card_bus_xid_time_and_one_request() -> None:
    block = to_markdown(samples.crash()).split("**Your administrator**")[1]
    for part in ("`gpu-b04`", "`GPU-5d2f1c7e-88f0-4b9c-9d5e-0a1b2c3d4e5f`", "`0000:3b:00`", "Xid 79", "+08:00"):
        assert part in block
    assert "Please drain the node" in block
    assert block.count("Please") == 1


def test_a_fault_in_the_program_asks_nothing_of_the_administrator() -> None:
    block = to_markdown(samples.hang()).split("**Your administrator**")[1]
    assert block.strip() == "- Nothing to ask: no evidence points to the machines."


def test_a_gpu_that_is_only_suspected_is_asked_for_and_no_node_is_drained() -> None:
    crash, hang = samples.crash().findings[0], samples.hang()
    suspected = replace(crash, certainty=Certainty.POSSIBLE, ranks=(9, 14), remedies=hang.findings[0].remedies[:1])
    block = to_markdown(replace(hang, findings=(*hang.findings, suspected))).split("**Your administrator**")[1]
    assert "ranks 9, 14" in block
    assert "Xid 79" in block
    assert "drain" not in block


def test_the_administrators_block_alone_says_what_happened_and_what_to_run() -> None:
    crash = samples.crash()
    block = to_markdown(crash).split("**Your administrator**")[1]
    assert "fell off the bus" in block
    assert "Check: dcgmi diag -r 3 passes." in block
    nowhere = replace(crash.findings[0], nodes=(), evidence=())
    block = to_markdown(replace(crash, findings=(nowhere,), stalled_since="2026-03-02T04:11:05"))
    assert "- rank 12 · the node is not named · since `2026-03-02 04:11:05` (zone not recorded)" in block


def test_the_node_of_its_rank_is_named_where_no_line_names_one() -> None:
    crash = samples.crash()
    case = Path(__file__).parents[1] / "cases" / "rank-crashed" / "hit_stands_in_its_handler" / "input"
    nowhere = replace(crash.findings[0], nodes=(), ranks=(2,))
    block = to_markdown(replace(crash, findings=(nowhere,)), build_facts(read_evidence([str(case)])))
    assert "- rank 2 · node `node-a`" in block


def test_the_administrator_hears_whose_node_nobody_looked_at() -> None:
    unknown = samples.unknown()
    stopped = replace(unknown, findings=unknown.findings[:1], ranks_missing=(2, 3))
    block = to_markdown(stopped).split("**Your administrator**")[1]
    assert "there is no data from ranks 2, 3: `dmesg -T` on their nodes" in block


def test_text_from_a_log_cannot_become_markup() -> None:
    page = to_markdown(samples.hostile())
    assert "\x1b" not in page
    assert "<script>" not in page.split("`")[0]
    assert escape_markdown("# <b> [x](y) *z*") == r"\# \<b\> \[x\](y) \*z\*"
    assert [escape_markdown(text) for text in ("10.0.44.203", "2. of", "- x")] == ["10.0.44.203", "2\\. of", "\\- x"]
    assert inline_code("a `b` ``c``") == "``` a `b` ``c`` ```"


def test_redaction_renames_the_node_in_both_blocks() -> None:
    page = to_markdown(samples.crash(), redactor=Redactor(share=True))
    assert "gpu-b04" not in page
    assert "host-1" in page


@pytest.mark.parametrize(
    ("lang", "told"),
    [
        ("en", "- host-1 replaces the real name; without `--redact` this text shows it"),
        ("zh", "- host-1 是替代名；不加 `--redact` 就会写出真名"),
    ],
)
def test_the_administrator_is_told_once_that_a_name_was_replaced(lang: str, told: str) -> None:
    assert to_markdown(samples.crash(), lang=lang, redactor=Redactor(share=True)).count(told) == 1
    assert "--redact" not in to_markdown(samples.crash(), lang=lang)


LIVE = (
    "@team @team/sub a@b.example #123 owner/repo#45 GH-12 !77 http://evil.example/x https://evil.example "
    "www.evil.example "
    "ftp://evil.example [x](http://evil.example) ![y](http://evil.example/y.png) [z]: http://evil.example "
    "<http://evil.example> <a href=x> <!-- gone --> &lt;b&gt; &#64;team :tada: deadbeefcafe1234 `@team` ``` `` x ` "
    "@other "
    "(@third), “@fourth”; javascript:alert(1) **@fifth** |@sixth| _@seventh_"
)
ACTED_ON = re.compile(r"@\w|#\d|GH-\d|!\d|://|www\.|&#?\w+;|:\w+:|\b[0-9a-f]{7,}\b", re.IGNORECASE)


def acted_on(page: str) -> list[str]:
    """What a reader of Markdown makes live, by a parser of CommonMark: markup, and words in what is not code."""
    found = []
    for block in MarkdownIt("commonmark").parse(page):
        for token in (block, *(block.children or ())):
            if token.type in ("link_open", "image", "html_inline", "html_block", "heading_open", "blockquote_open"):
                found.append(token.type)
            if token.type == "text":
                found += ACTED_ON.findall(token.content)
    return found


def test_nothing_of_evidence_is_acted_on() -> None:
    shown = escape_markdown(LIVE)

    assert acted_on(shown) == []
    for word in ("@team", "#123", "owner/repo#45", "https://evil.example", "deadbeefcafe1234"):
        assert word in shown


def test_values_stay_literal_wherever_a_sentence_puts_them() -> None:
    nested = say("because of {what}", what="@inner `x` http://evil.example")
    text = say("`{name}` of {name}: {nested} and {names}", name="a`b @team", nested=nested, names="#12")

    shown = inline_text(text, Localizer("en", Redactor()))

    assert shown.startswith("`a'b @team` of a\\`b `@team`: because of `@inner`")
    assert acted_on(shown) == []


def test_the_number_of_a_call_is_none_of_an_issue() -> None:
    text = say("{operation} #{position}, `#{position}` (#{named})", operation="all_gather", position=14, named="15`")

    assert inline_text(text, Localizer("en", Redactor())) == "all_gather `#14`, `#14` (`#15'`)"


def test_a_public_report_is_named_and_no_link() -> None:
    similar = KnownIncident(Cause.RENDEZVOUS, "https://github.com/ray-project/ray/issues/37461", "it waited", "a port")
    page = to_markdown(replace(samples.unknown(), incidents=(similar,)))

    assert "`https://github.com/" in page
    assert acted_on(page) == []


def test_no_live_word_in_a_verdict_of_hostile_evidence() -> None:
    finding = Finding(
        cause=Cause.GPU_HARDWARE,
        certainty=Certainty.LIKELY,
        severity=Severity.STOPS,
        ranks=(3,),
        nodes=(LIVE,),
        where=Where(LIVE, 3, LIVE),
        summary=say("{what} fell", what=LIVE),
        because=[say("{a} said {b}", a=LIVE, b=say("{c}", c=LIVE))],
        evidence=[Evidence(Source(LIVE, 3), LIVE, time=LIVE)],
        remedies=[
            Remedy(
                title=say("ask {who}", who=LIVE),
                kind=RemedyKind.INFRASTRUCTURE,
                change=say("{x}\n{x}", x=LIVE),
                cost=say("{x}", x=LIVE),
                verify=say("{x}", x=LIVE),
            )
        ],
    )
    page = to_markdown(replace(samples.hostile(), findings=[finding]))

    assert acted_on(page) == []
