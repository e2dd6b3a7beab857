"""Print the verdict on a bundle that was just recorded."""

from __future__ import annotations

from pathlib import Path


def print_verdict(bundle: Path, *, report: Path | None = None) -> int:
    """Read ``bundle``, print the verdict, write an HTML report when ``report`` names one. Returns the exit code."""
    from unhang.cli.verdict_output import VerdictOutput, exit_code
    from unhang.diagnosis.diagnose import diagnose
    from unhang.evidence.inputs import read_evidence
    from unhang.facts.build import build_facts

    facts = build_facts(read_evidence([str(bundle)]))
    verdict = diagnose(facts)
    output = VerdictOutput.chosen("text", lang=None, redact=False, color=None, debug=False)
    output.give(verdict, facts, None)
    if report is not None:
        output.write_html(report, verdict, facts)
    return exit_code(verdict)
