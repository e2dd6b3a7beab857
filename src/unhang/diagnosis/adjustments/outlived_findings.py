"""What the job went on after is no alarm: a finding that rests on lines before a good end becomes a note.

Only where nothing else tells of trouble: a timeout, a failed process, a restart, a sample of processes that stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from unhang.diagnosis.state import timeout_events
from unhang.evidence.items import Progress
from unhang.facts.endings.good_endings import good_endings
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.model import Facts
from unhang.findings import Finding, Severity, Source
from unhang.knowledge.messages import message_row
from unhang.sentences import say

_ENDS_A_PROCESS = frozenset(("exit", "killed", "restart", "aborted", "stuck"))
_RAISED = "py.error"
"""The last line of an exception, which the program may have caught."""


def downgrade_outlived(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``, those that the job outlived as notes."""
    ended = good_endings(facts)
    raised = bool(facts.tracebacks or facts.events_of(_RAISED))
    if not ended.last or _in_trouble(facts) or (raised and ended.whole is None):
        return findings
    ends = {path: (ending.since_line, ending.source.line or 0) for path, ending in ended.last.items()}
    return tuple(_as_note(f) if f.severity is Severity.STOPS and _is_covered_by(f, ends) else f for f in findings)


def place_among_notes(facts: Facts, leading: Finding, notes: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``leading`` after the ``notes`` that explain it, and before those that steps outlived."""
    steps = {log.source.path: (0, _last_step(log.progress)) for log in facts.logs}
    outlived = tuple(note for note in notes if _is_covered_by(note, steps))
    return (*(note for note in notes if note not in outlived), leading, *outlived)


def _last_step(progress: Iterable[Progress]) -> int:
    counted = (run.last_line for run in progress if run.last_step > run.first_step and not is_preparing(run))
    return max(counted, default=0)


def _is_covered_by(finding: Finding, lines: Mapping[str, tuple[int, int]]) -> bool:
    """Each line it rests on stands in a log between the two lines named for it."""
    return bool(finding.evidence) and all(
        _is_between(e.source, *lines.get(e.source.path, (0, 0))) for e in finding.evidence
    )


def _is_between(source: Source, since: int, until: int) -> bool:
    return source.line is not None and since < source.line < until


def _in_trouble(facts: Facts) -> bool:
    if timeout_events(facts) or facts.graph.edges or facts.all_joined_stalls or facts.mismatches:
        return True
    if any(exit_.exit_code != 0 for exit_ in facts.exits):
        return True
    return bool(facts.events_where(lambda kind: kind != _RAISED and message_row(kind).says in _ENDS_A_PROCESS))


def _as_note(finding: Finding) -> Finding:
    because = say("the job went on after it and ended well")
    return replace(finding, severity=Severity.NOTE, because=(because, *finding.because))
