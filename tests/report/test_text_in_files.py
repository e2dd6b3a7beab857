"""A sentence that went through a file is said in the language of who reads it, and is somebody's file all the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unhang.findings import Cause
from unhang.report.language import translate
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.report.text_serialization import clean_serialized, text_from_json, text_to_json
from unhang.sentences import Text, say

ZH = Localizer("zh", Redactor())
BEHIND = say("{who} by {count}", who=say("ranks {ranks}", ranks=(3, 4, 5)), count=7)
LAGGARDS = say(
    "{waiters:who} {waiters:has|have} waited {time} for {laggards:who}",
    waiters=(1, 2, 3),
    laggards=(0,),
    time="8 s",
)


def through_a_file(text: Text) -> Any:
    return json.loads(json.dumps(text_to_json(text)))


@pytest.mark.parametrize("text", [BEHIND, LAGGARDS, say("progressing")])
def test_it_is_said_as_if_it_had_not_travelled(text: Text) -> None:
    assert text_from_json(through_a_file(text), "English", ZH) == translate(text, "zh")
    assert text_from_json(through_a_file(text), str(text), Localizer("en", Redactor())) == str(text)


def test_what_json_cannot_hold_goes_as_text() -> None:
    values = {"cause": Cause.UNEVEN_DATA, "ranks": frozenset((2, 1)), "path": ("a", "b"), "none": None}
    kept = through_a_file(Text("moves", values))["values"]
    assert kept == {"cause": "uneven-data", "ranks": [1, 2], "path": "('a', 'b')", "none": None}


def nested(deep: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"template": "progressing", "values": {}}
    for _ in range(deep):
        inner = {"template": "{who} by {count}", "values": {"who": inner, "count": 1}}
    return inner


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {"template": "progressing", "values": []},
        {"template": ["moves"], "values": {}},
        {"template": "not one of ours {x:>9999999999}", "values": {"x": "1"}},
        {
            "template": "{who} by {count}",
            "values": {"who": {"template": "{x:>9999999999}", "values": {"x": 1}}, "count": 1},
        },
        {"template": "{who} by {count}", "values": {}},
        {"template": "verdicts: {waiters:who}", "values": {"waiters": "text"}},
        {"template": "no heartbeat from node {node} for {seconds:.0f} s", "values": {"node": "h1", "seconds": "text"}},
        nested(50),
    ],
)
def test_what_cannot_be_one_is_said_in_english(told: Any) -> None:
    assert text_from_json(told, "the English sentence", ZH) == "the English sentence"


def test_a_secret_in_a_value_is_removed_on_the_way() -> None:
    secret = "ghp_" + "a1B2" * 9
    text = say("{who} by {count}", who=say("{who} by {count}", who=secret, count=1), count=2)
    kept = clean_serialized(through_a_file(text), ZH.line)
    assert secret not in json.dumps(kept)
    assert kept["template"] == text.template
    assert secret not in text_from_json(through_a_file(text), "", ZH)


def test_what_lies_too_deep_costs_no_stack() -> None:
    kept = clean_serialized(nested(450), ZH.line)
    assert text_from_json(kept, "the English sentence", ZH) == "the English sentence"
    assert clean_serialized(nested(3), ZH.line) == nested(3)
