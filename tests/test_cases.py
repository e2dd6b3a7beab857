"""Every folder of ``tests/cases`` through the real pipeline: what must hold, holds.

``<cause>/hit_*``: the cause must lead. ``miss_*``: it looks alike and must not lead. ``unsure_*``: not too sure.
``expected.json`` holds only what must hold; CONTRIBUTING.md lists its keys.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.screen_rules import broken_screen_rules
from unhang.cli.output.verdict_output import exit_code
from unhang.diagnosis.jobs import JobVerdict
from unhang.findings import Cause, Certainty, Verdict, Where

CASES = Path(__file__).parent / "cases"
RULES = Path(__file__).resolve().parents[1] / "src" / "unhang" / "causes"
KINDS = ("hit", "miss", "unsure")
HEADINGS = ("What happens", "Why it hangs", "Example", "Fix", "Certain when", "Possible when")
KEYS = {
    *("cause", "certainty", "ranks", "where", "waiter_where", "status", "ranks_missing", "ranks_seen", "world_size"),
    *("not_cause", "certainty_at_most", "certainty_at_least", "exit_code", "group", "phase", "also", "note", "says"),
    "says_not",
    "ended_well",  # after a restart: what fuzzing leaves of it may be well
}


def case_folders() -> list[Path]:
    return sorted(path for path in CASES.glob("*/*") if path.is_dir() and path.name.split("_")[0] in KINDS)


def name_of(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def jobs_of(folder: Path) -> tuple[JobVerdict, ...]:
    from unhang.diagnosis.jobs import diagnose_jobs
    from unhang.evidence.inputs import read_evidence

    return diagnose_jobs(read_evidence([str(folder / "input")]))


def decide(folder: Path) -> Verdict:
    return jobs_of(folder)[0].verdict


def expected(folder: Path) -> dict[str, Any]:
    """What must hold. A whole verdict (as ``--save-case`` writes it) is cut down to the keys of its first finding."""
    wanted: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    if wanted.get("schema") == "unhang.verdict/1":
        first = wanted["findings"][0]
        return {
            "status": wanted["status"],
            **{key: first[key] for key in ("cause", "certainty", "ranks", "where") if first.get(key)},
        }
    return wanted


@pytest.mark.parametrize("folder", case_folders(), ids=name_of)
def test_case(folder: Path) -> None:
    wanted = expected(folder)
    jobs = jobs_of(folder)
    verdict = jobs[0].verdict

    assert list(broken_promises(wanted, verdict)) == []
    assert [broken for job in jobs for broken in broken_screen_rules(job)] == []
    assert [gap for gap in (*verdict.not_checked, *verdict.unread) if gap.failed] == []


def broken_promises(wanted: dict[str, Any], verdict: Verdict) -> Iterator[str]:
    """One sentence for each key of ``wanted`` that does not hold."""
    first = verdict.findings[0] if verdict.findings else None
    got: dict[str, Any] = {
        "cause": first.cause.value if first else None,
        "certainty": first.certainty.value if first else None,
        "ranks": list(first.ranks) if first else [],
        "group": first.group if first else None,
        "phase": first.phase.value if first and first.phase else None,
        "status": verdict.status.value,
        "world_size": verdict.world_size,
        "ranks_seen": list(verdict.ranks_seen),
        "ranks_missing": list(verdict.ranks_missing),
        "exit_code": exit_code(verdict),
    }
    for key, value in wanted.items():
        if key in got and got[key] != value:
            yield f"{key} is {got[key]}, must be {value}"
    for key in ("where", "waiter_where"):
        if key in wanted and not same_place(wanted[key], getattr(first, key) if first else None):
            yield f"{key} is {getattr(first, key) if first else None}, must be {wanted[key]}"
    yield from _bounds(wanted, verdict, got)


def _bounds(wanted: dict[str, Any], verdict: Verdict, got: dict[str, Any]) -> Iterator[str]:
    unwanted = wanted.get("not_cause", [])
    if got["cause"] in ([unwanted] if isinstance(unwanted, str) else unwanted):
        yield f"{got['cause']} leads and must not"
    for key, worse in (("certainty_at_most", 1), ("certainty_at_least", -1)):
        if key in wanted and got["certainty"] is not None:
            difference = Certainty(got["certainty"]).order - Certainty(wanted[key]).order
            if difference * worse > 0:
                yield f"certainty is {got['certainty']}, {key} {wanted[key]}"
    lead = verdict.findings[0] if verdict.findings else None
    said = " ".join(map(str, (lead.summary, *lead.because))) if lead is not None else ""
    for words in wanted.get("says", []):
        if words not in said:
            yield f"{words!r} is not said"
    advised = " ".join(str(remedy.title) for remedy in lead.remedies) if lead is not None else ""
    yield from (f"{words!r} is said" for words in wanted.get("says_not", []) if words in f"{said} {advised}")
    causes = {finding.cause.value for finding in verdict.findings}
    causes |= {consequence.cause.value for finding in verdict.findings for consequence in finding.consequences}
    for cause in wanted.get("also", []):
        if cause not in causes:
            yield f"{cause} is not among the findings"


def same_place(wanted: dict[str, Any] | None, got: Where | None) -> bool:
    """Files compare by as many last parts as are named."""
    if wanted is None or got is None:
        return wanted is None and got is None
    parts = wanted["file"].split("/")
    if got.file.split("/")[-len(parts) :] != parts:
        return False
    return all(getattr(got, key) == wanted[key] for key in ("line", "function") if wanted.get(key) is not None)


@pytest.mark.parametrize("folder", case_folders(), ids=name_of)
def test_a_case_is_well_formed(folder: Path) -> None:
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))

    assert folder.parent.name in {cause.value for cause in Cause}
    assert any((folder / "input").iterdir())
    if wanted.get("schema") == "unhang.verdict/1":
        return
    assert set(wanted) <= KEYS, "a misspelt key would hold nothing"
    kind = folder.name.split("_")[0]
    if kind == "hit":
        assert wanted.get("cause") == folder.parent.name
    elif kind == "miss":
        assert folder.parent.name != wanted.get("cause")
        assert "not_cause" in wanted or "cause" in wanted
    else:
        assert "certainty_at_most" in wanted or wanted.get("certainty") in ("likely", "possible")


def rule_modules() -> list[Path]:
    return sorted(path for path in RULES.glob("*/*.py") if path.name != "__init__.py" and path.parent.name != "wording")


def cause_of(rule: Path) -> str:
    """The cause a rule's file is named for; a file may add words to it (``unknown_symmetric``)."""
    name = rule.stem.replace("_", "-")
    causes = [cause.value for cause in Cause if name == cause.value or name.startswith(f"{cause.value}-")]
    assert causes, f"{rule.name} is not named for a cause"
    return max(causes, key=len)


@pytest.mark.parametrize("rule", rule_modules(), ids=lambda path: path.stem)
def test_every_rule_has_a_hit_a_look_alike_and_an_unsure_case(rule: Path) -> None:
    kinds = {folder.name.split("_")[0] for folder in case_folders() if folder.parent.name == cause_of(rule)}

    assert kinds == set(KINDS)


@pytest.mark.parametrize("rule", rule_modules(), ids=lambda path: path.stem)
def test_every_rule_is_a_page(rule: Path) -> None:
    page = ast.get_docstring(ast.parse(rule.read_text(encoding="utf-8"))) or ""

    assert [heading for heading in HEADINGS if heading not in page] == []
