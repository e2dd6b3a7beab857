"""A version that is known to hang.

What happens: a release of NCCL, torch or a library around them has a defect that stalls some jobs.

Why it hangs: each row says it: a non-blocking initialisation that never ends, an all-to-all that deadlocks, a recorder
that keeps nothing.

Example: torch 2.7.0 with ``init_process_group(device_id=…)``; NCCL 2.19.4 with NVLS.

Fix: the release that mends it, or the workaround of the row.

Certain when: never; a defect needs circumstances that are not known before the job runs.

Possible when: exactly this release is affected. Defects of a whole range that a newer release mends are one note for
each package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from unhang.facts.preflight.situation import Situation
from unhang.facts.preflight.versions import Versions
from unhang.findings import Cause, Certainty, Checked, Evidence, Remedy, RemedyKind, Severity, Source, Text, say
from unhang.knowledge.versions import VersionRow, known_of, version_numbers
from unhang.rules.risks.risk import Answer, could_not, risk

CHECK = "versions"
_NAMES = {"nccl": "NCCL", "torch": "PyTorch", "trl": "TRL", "deepspeed": "DeepSpeed"}
_NUMBER = re.compile(r"\d+(?:\.\d+)+")
TOLD = 4
"""So many defects of a range are told in words; the rest are counted."""


def ask(here: Situation) -> Iterator[Answer]:
    """One finding for each exact row, one note for all ranges of a package."""
    look = here.look(Versions)
    gap = could_not(CHECK, say("The version of torch"), look)
    if gap is not None:
        yield gap
    for package, version in sorted(look.found.of.items()) if look.found is not None else ():
        rows = known_of(package, version, kinds=("bad", "unverified"))
        exact = [row for row in rows if _exact(row)]
        ranges = [row for row in rows if row not in exact and row.affects and _release(row.fixed_in)]
        for row in exact:
            yield _finding(package, version, row)
        if ranges:
            yield _note(package, version, ranges)
        elif not exact:
            yield Checked(CHECK, say("{package} {version}", package=_name(package), version=version))


def _exact(row: VersionRow) -> bool:
    return row.affects.startswith("==") and not row.affects.endswith("*")


def _finding(package: str, version: str, row: VersionRow) -> Answer:
    return risk(
        CHECK,
        package,
        Cause.VERSION_MISMATCH,
        say("{package} {version}: {symptom}", package=_name(package), version=version, symptom=row.symptom),
        certainty=Certainty.POSSIBLE,
        severity=Severity.NOTE if row.kind == "unverified" else Severity.SLOWS,
        because=(say("{where}", where=row.where),) if row.where else (),
        evidence=(Evidence(Source(f"{package} {version}"), row.source),),
        remedies=(_remedy(package, row.fixed_in, row.workaround),),
    )


def _note(package: str, version: str, rows: Sequence[VersionRow]) -> Answer:
    told = sorted(rows, key=lambda row: row.affects, reverse=True)[:TOLD]
    fixed = max((row.fixed_in for row in rows if _release(row.fixed_in)), key=_numbers, default="")
    summary = say(
        "{package} {version} has known defects in special circumstances ({count})",
        package=_name(package),
        version=version,
        count=len(rows),
    )
    return risk(
        CHECK,
        package,
        Cause.VERSION_MISMATCH,
        summary,
        certainty=Certainty.POSSIBLE,
        severity=Severity.NOTE,
        because=tuple(_told(row) for row in told),
        evidence=tuple(Evidence(Source(f"{package} {version}"), row.source) for row in told),
        remedies=(_remedy(package, fixed, ""),),
    )


def _told(row: VersionRow) -> Text:
    if _release(row.fixed_in):
        return say("{symptom} (mended in {version})", symptom=row.symptom, version=row.fixed_in)
    return say("{symptom} ({workaround})", symptom=row.symptom, workaround=row.workaround or row.affects)


def _release(text: str) -> str:
    """The release a row names first (``2.26.5+ (not bisected)``); empty where it begins with a remark."""
    found = _NUMBER.match(text)
    return found[0] if found else ""


def _numbers(text: str) -> tuple[int, ...]:
    return version_numbers(_release(text)) or ()


def _name(package: str) -> str:
    return _NAMES.get(package, package)


def _remedy(package: str, fixed_in: str, workaround: str) -> Remedy:
    release = _release(fixed_in)
    title = (
        say("Use {package} {version} or newer", package=_name(package), version=release)
        if release
        else say("Use another release of {package}", package=_name(package))
    )
    return Remedy(
        title,
        RemedyKind.CONFIG,
        say("or {workaround}", workaround=workaround) if workaround else Text(""),
        say("an upgrade to test"),
        say("unhang check --only versions"),
    )
