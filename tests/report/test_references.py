"""No sentence points at a place of the report: it may be shown alone, and then nothing stands there."""

from __future__ import annotations

import re

import pytest

from scripts.catalogue import known_sentences, source_templates
from unhang.knowledge.messages import load_messages
from unhang.report.language import catalogue, knowledge_catalogue

POINTS = re.compile(
    r"\b(?:above|below|aforementioned)\b(?=\s*(?:[.;:,)\]]|$|(?:and|or|is|are|was|were|to|in|for|by)\b))"
    r"|\bthe \w+(?: \w+)? (?:above|below)\b(?! (?:the|a|it|its|what|which|\{|\d))"
    r"|\b(?:the|as|than) (?:former|latter|foregoing|preceding)\b|\b(?:see|as) (?:above|below)\b|\bof the above\b",
    re.IGNORECASE,
)
"""A word of place without the thing that lies there: `above the cards` names it, `the call sites above` does not."""
POINTS_ZH = re.compile(r"同上|如上|如下|上述|见上|见下|上文|(?<!上)下文|上面那个|下面那个")
OF_A_LOG = {row.meaning for row in load_messages()}
"""Explanations of a line of a log, shown beside it: the lines around it are in that log."""


def test_what_points_is_recognised() -> None:
    assert POINTS.search("Compare the two call sites above, and mend the one that differs")
    assert POINTS.search("As above; costs registration time.")
    assert not POINTS.search("Switch ACS off on the bridges above the GPUs")
    assert not POINTS.search("the disk stays below 90 %")


@pytest.mark.parametrize("sentences", [source_templates, known_sentences], ids=["reports and remedies", "knowledge"])
def test_no_sentence_points_at_what_may_not_be_there(sentences: object) -> None:
    assert callable(sentences)
    assert sorted(text for text in set(sentences()) - OF_A_LOG if POINTS.search(text)) == []


@pytest.mark.parametrize("held", [catalogue, knowledge_catalogue])
def test_no_translation_points_either(held: object) -> None:
    assert callable(held)
    assert sorted(said for text, said in held("zh").items() if text not in OF_A_LOG and POINTS_ZH.search(said)) == []
