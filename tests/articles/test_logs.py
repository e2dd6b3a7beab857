"""Untidy logs of known stories: what ended the job leads, or is listed, and nothing else is sure."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Certainty, Severity, Verdict

LOGS = Path(__file__).parent / "logs"
TRUTH: dict[str, dict[str, Any]] = tomli.loads((LOGS / "truth.toml").read_text(encoding="utf-8"))


@cache
def verdict_of(name: str) -> Verdict:
    return diagnose(build_facts(read_evidence([str(LOGS / f"{name}.log")])))


def named(verdict: Verdict) -> list[Cause]:
    """The causes of the findings that are no notes, the most certain first."""
    return [f.cause for f in verdict.findings if f.severity is not Severity.NOTE and f.cause is not Cause.UNKNOWN]


def test_every_log_has_its_truth() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == set(TRUTH)


@pytest.mark.parametrize("name", TRUTH)
def test_no_other_cause_is_sure(name: str) -> None:
    sure = {f.cause.value for f in verdict_of(name).findings if f.certainty is not Certainty.POSSIBLE}

    assert sure <= {*TRUTH[name]["causes"], "unknown"}


@pytest.mark.parametrize("name", [name for name, row in TRUTH.items() if row["place"] == "first"])
def test_what_ended_the_job_comes_first(name: str) -> None:
    verdict = verdict_of(name)
    leads = [found[0].value for found in (named(verdict), [c.cause for c in verdict.differential]) if found]

    assert set(leads) & set(TRUTH[name]["causes"])


@pytest.mark.parametrize("name", [name for name, row in TRUTH.items() if row["place"] == "listed"])
def test_what_ended_the_job_is_listed(name: str) -> None:
    verdict = verdict_of(name)
    told = {cause.value for cause in (*named(verdict), *(c.cause for c in verdict.differential))}

    assert told & set(TRUTH[name]["causes"])


@pytest.mark.parametrize("name", [name for name, row in TRUTH.items() if "says" in row])
def test_the_first_sentence_tells_what_is_known(name: str) -> None:
    assert TRUTH[name]["says"] in str(verdict_of(name).findings[0].summary)


@pytest.mark.parametrize("name", ["000_3", "001_3", "004_3"])
def test_a_job_that_somebody_ended_did_not_crash_before(name: str) -> None:
    assert Cause.RANK_CRASHED not in {c.cause for c in verdict_of(name).differential}


@pytest.mark.parametrize("name", ["002_1", "002_2", "002_3"])
def test_a_right_guess_of_the_card_asks_for_a_bisect(name: str) -> None:
    verdict = verdict_of(name)
    note = next(f for f in verdict.findings if f.cause is Cause.DEVICE_MAPPING)

    assert note.severity is Severity.NOTE
    assert [str(remedy.title) for remedy in note.remedies] == ["Find the one setting that is needed with unhang bisect"]
    assert Cause.DEVICE_MAPPING not in {c.cause for c in verdict.differential}


def test_a_wrong_guess_asks_for_own_cards(tmp_path: Path) -> None:
    text = (LOGS / "002_2.log").read_text(encoding="utf-8")
    log = tmp_path / "train.log"
    log.write_text(text.replace("using GPU 3", "using GPU 0"), encoding="utf-8")

    found = next(
        f for f in diagnose(build_facts(read_evidence([str(log)]))).findings if f.cause is Cause.DEVICE_MAPPING
    )

    assert found.severity is Severity.STOPS
    assert str(found.remedies[0].title).startswith("Give every rank its own GPU")
