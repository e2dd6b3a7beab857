from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema

from tests.report import report_samples as samples
from unhang.findings import Cause, Certainty, Evidence, Phase, Source, Status, Verdict
from unhang.report.redaction.redact import Redactor
from unhang.report.verdict_document import json_schema, schema_text, to_json

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "verdict.schema.json"


def test_every_verdict_validates_against_the_schema(verdict: Verdict) -> None:
    document = json.loads(to_json(verdict))
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    assert document["schema"] == "unhang.verdict/1"


def test_the_schema_in_the_docs_is_current() -> None:
    assert SCHEMA_FILE.read_text("utf-8") == schema_text(), (
        "python -m unhang.report.verdict_document > docs/verdict.schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_keys_of_the_contract_are_all_there() -> None:
    document = json.loads(to_json(samples.hang()))
    assert {
        *("schema", "unhang", "lang", "status", "world_size", "ranks_seen", "ranks_missing", "findings", "ruled_out"),
        *("not_checked", "restart", "stalled_since", "noticed_after_s", "killed_in_s", "checked"),
    } <= document.keys()
    finding = document["findings"][0]
    assert {
        *("cause", "certainty", "severity", "ranks", "nodes", "group", "phase", "where", "waiter_where", "calls"),
        *("summary", "because", "evidence", "remedies", "consequences", "check", "subject"),
    } <= finding.keys()
    assert finding["where"] == {"file": samples.TRAIN, "line": 26, "function": "main"}
    assert finding["calls"][0]["operation"] == "all_reduce"
    assert {"source", "line", "text", "rank", "time"} <= finding["evidence"][0].keys()
    assert {"title", "kind", "change", "set", "unset", "cost", "verify"} == finding["remedies"][0].keys()
    assert finding["consequences"][0]["count"] == 7
    assert document["restart"]["advice"] == "after-change"
    assert {"what", "because", "how", "check"} == document["not_checked"][0].keys()


def test_members_of_the_enumerations_are_those_of_the_findings() -> None:
    definitions = json_schema()["$defs"]
    for kind in (Cause, Certainty, Phase, Status):
        assert set(definitions[kind.__name__]["enum"]) == {member.value for member in kind}


def test_redaction_reaches_every_text_of_the_document() -> None:
    text = to_json(samples.hang(), redactor=Redactor(share=True))
    assert "mlee" not in text
    assert "gpu-a17" not in text
    assert "train.py" in text


def test_undecodable_names_and_control_codes_cannot_break_the_document() -> None:
    item = Evidence(Source("log-\udcff.txt", 3), "a\x00\x1b[31mb\udc80", 0, "12:00\udc81")
    finding = replace(samples.hang().findings[0], evidence=(item,))
    evidence = json.loads(to_json(replace(samples.hang(), findings=(finding,))))["findings"][0]["evidence"][0]
    assert (evidence["source"], evidence["text"], evidence["time"]) == ("log-\ufffd.txt", "ab\ufffd", "12:00\ufffd")
