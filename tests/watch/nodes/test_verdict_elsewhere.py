"""The leader's verdict on another node's terminal: in the language of who reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unhang.report.language import translate
from unhang.report.text_serialization import text_to_json
from unhang.sentences import say
from unhang.watch.nodes.leadership import LeaderVerdict
from unhang.watch.nodes.node_announcements import leader_verdict_line
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary

SENTENCE = say("{ranks:who} {ranks:is|are} stopped (state T); the others wait for {ranks:it|them}", ranks=(3,))


def said(**changed: Any) -> LeaderVerdict:
    summary = VerdictSummary(
        number=1,
        level=VerdictLevel.STALL.value,
        status="hang",
        cause="rank-frozen",
        certainty="certain",
        ranks=(3,),
        where="train.py:3",
        sentence=str(SENTENCE),
        stalled_since_s=None,
        limit_at_s=None,
        moving=False,
        settled=True,
        laggard_works=False,
        needs_lines=False,
        sentence_parts=text_to_json(SENTENCE),
    )
    return LeaderVerdict(1, "h0", "/runs/7", replace(summary, **changed))


def line(heard: LeaderVerdict, lang: str) -> str:
    return translate(leader_verdict_line(heard, lang), lang)


def test_english() -> None:
    assert line(said(), "en") == (
        "verdict of node h0: rank-frozen · certain: rank 3 is stopped (state T); the others wait for it"
        "  evidence there: /runs/7"
    )


def test_chinese() -> None:
    told = line(said(), "zh")

    assert "the others wait" not in told
    assert "certain" not in told
    assert "rank 3" in told


def test_what_cannot_be_said_again_stays_as_it_was_and_nothing_of_it_reaches_the_terminal_raw() -> None:
    told = line(said(sentence="\x1b[2Jgone\nnow", sentence_parts={"template": "{0.__class__}", "values": {}}), "zh")

    assert "\x1b" not in told
    assert "\n" not in told
    assert "gone" in told
