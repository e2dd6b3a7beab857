"""version-mismatch: a version in use has a known defect, and the job shows what that defect needs.

What happens: the log prints a version of which a defect is known: in this operation, at this moment, on such a machine.
Why it hangs: the library waits for itself; no rank is late and no line of the program is wrong.
Example: `NCCL version 2.19.3`, and all ranks wait in an all-to-all that never ends.
Fix: the version in which it is mended; until then the way around it.
Certain when: never: other causes look the same.
Possible when: the version is affected and what the defect needs is seen. An affected version alone is a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.logs.logged_versions import LoggedVersion, logged_versions
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.known_defect_signs import defect_signs
from unhang.facts.model import Facts
from unhang.findings import Cause, Evidence, Grade, Remedy, Severity
from unhang.knowledge.job.versions import VersionRow, rows_affecting
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.VERSION_MISMATCH


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Known defects of the versions printed, where nothing failed by itself."""
    signs = defect_signs(facts)
    if "stalled" not in signs or primary_crashes(facts):
        return
    for used in logged_versions(facts):
        rows = [row for row in rows_affecting(used.package, used.version, ("bad",)) if row.signs]
        fitting = [row for row in rows if signs.issuperset(row.signs)]
        if fitting:
            yield _suspected(facts, used, max(fitting, key=lambda row: len(row.signs)), signs)
        elif narrow := [row for row in rows if row.introduced]:
            yield _noted(used, narrow[0])


def _suspected(facts: Facts, used: LoggedVersion, row: VersionRow, signs: frozenset[str]) -> DetectorResult:
    return make_signal(
        CAUSE,
        Grade.ORDER,
        say(
            "{package} {version} has a known defect that fits: {defect}",
            package=used.package,
            version=used.version,
            defect=row.symptom,
        ),
        whole=bool(row.telling) and signs.issuperset(row.telling),
        because=(
            say("it is known from {source}", source=row.source),
            say("nothing that was read tells of another reason; the same waiting has other causes too"),
        ),
        evidence=(used.evidence, *_waits(facts)),
        remedies=(*_newer(used, row), *_around(row)),
    )


def _noted(used: LoggedVersion, row: VersionRow) -> DetectorResult:
    return make_signal(
        CAUSE,
        Grade.BASE_RATE,
        say(
            "{package} {version} has a known defect; nothing that was read shows it here: {defect}",
            package=used.package,
            version=used.version,
            defect=row.symptom,
        ),
        severity=Severity.NOTE,
        because=(say("it is known from {source}", source=row.source),),
        evidence=(used.evidence,),
        remedies=(*_newer(used, row), *_around(row)),
    )


def _waits(facts: Facts) -> tuple[Evidence, ...]:
    logged = logged_waits(facts)
    return tuple(w.evidence for w in logged.waits[:2]) if logged is not None else ()


def _newer(used: LoggedVersion, row: VersionRow) -> Iterator[Remedy]:
    if not row.fixed:
        return
    yield remedy("use-fixed-version", package=used.package, version=row.fixed, source=row.source)


def _around(row: VersionRow) -> Iterator[Remedy]:
    if not row.workaround:
        return
    yield remedy("apply-known-workaround", way=row.workaround)
