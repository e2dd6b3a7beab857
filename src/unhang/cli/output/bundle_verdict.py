"""Print the verdict on a bundle that was just recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unhang.findings import Verdict


def print_verdict(bundle: Path, *, report: Path | None = None) -> Verdict:
    """Read ``bundle``, print the verdict, write an HTML report when ``report`` names one. Returns it."""
    from unhang.cli.output.verdict_output import VerdictOutput
    from unhang.diagnosis.diagnose import diagnose
    from unhang.evidence.inputs import read_evidence
    from unhang.facts.build import build_facts

    facts = build_facts(read_evidence([str(bundle)]))
    verdict = diagnose(facts)
    output = VerdictOutput.chosen("text", lang=None, redact=False, color=None, debug=False)
    output.give(verdict, facts, None)
    if report is not None:
        output.write_html(report, verdict, facts)
    return verdict
