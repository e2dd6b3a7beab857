"""A version that is known to hang.

What happens: a release of NCCL, torch or a library around them has a defect that stalls some jobs.

Why it hangs: each row says it: a non-blocking initialisation that never ends, an all-to-all that deadlocks, a recorder
that keeps nothing.

Example: torch 2.7.0 with ``init_process_group(device_id=…)``; NCCL 2.19.4 with NVLS.

Fix: the release that fixed it or a newer one, one older than the release that introduced it, or the workaround of the
row. The release that fixed a defect, and the last one before it, are never reported for it: that they helped is said.

Certain when: never; a defect needs circumstances that are not known before the job runs.

Possible when: exactly this release is affected. Defects of a whole range that a newer release fixes are one note for
each package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.environment.versions import Versions
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, NotChecked, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.release_choice import affected_releases, package_name, recommended_release
from unhang.knowledge.job.versions import VersionRow, rows_affecting, rows_fixed_in, version_numbers
from unhang.sentences import Text, say

CHECK = "versions"
TOLD = 4
"""So many defects of a range are told in words; the rest are counted."""


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each exact row, one note for all ranges of a package."""
    result = here.result(Versions)
    gap = could_not(CHECK, say("The version of torch"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    for package, version in sorted(result.found.of.items()):
        yield from _of_package(package, version, _place(result.found, package, version))
    yield from _left_open(result.found)


def _of_package(package: str, version: str, place: Text) -> Iterator[Answer]:
    rows = rows_affecting(package, version, kinds=("bad", "unverified"))
    exact = [row for row in rows if row.single]
    ranges = [row for row in rows if row not in exact and row.fixed]
    for row in exact:
        yield _finding(package, place, row)
    if ranges:
        yield _note(package, place, ranges)
    helped = [row for row in rows_fixed_in(package, version) if row.kind in ("bad", "unverified")]
    for row in helped[:TOLD]:
        yield PassedCheck(CHECK, _helps(place, row, fixed_it=_fixed(row) == version_numbers(version)))
    if not exact and not ranges and not helped:
        yield PassedCheck(CHECK, place)


def _place(versions: Versions, package: str, version: str) -> Text:
    """The release, and where it is known from where the package itself does not tell."""
    named = say("{package} {version}", package=package_name(package), version=version)
    origin = versions.origin.get(package)
    return say("{release} ({origin})", release=named, origin=origin) if origin is not None else named


def _helps(place: Text, row: VersionRow, *, fixed_it: bool) -> Text:
    if fixed_it:
        return say("{release} is the first that has this no more: {symptom}", release=place, symptom=row.symptom)
    return say(
        "{release} is the one to go back to from {introduced}: {symptom}",
        release=place,
        introduced=row.introduced,
        symptom=row.symptom,
    )


def _left_open(versions: Versions) -> Iterator[Answer]:
    """Packages of which the project allows several releases, and some are known to hang."""
    for package, (allowed, place) in sorted(versions.allowed.items()):
        yield NotChecked(
            say("Which release of {package} will run", package=package_name(package)),
            say("it is not installed here, and {place} allows {allowed}", place=place, allowed=allowed),
            f"unhang check --assume {package}=VERSION",
            check=CHECK,
        )


def _finding(package: str, place: Text, row: VersionRow) -> Answer:
    return risk(
        CHECK,
        package,
        Cause.VERSION_MISMATCH,
        say("{release}: {symptom}", release=place, symptom=row.symptom),
        certainty=Certainty.POSSIBLE,
        severity=Severity.NOTE if row.kind == "unverified" else Severity.SLOWS,
        because=(affected_releases(row), *((say("{where}", where=row.where),) if row.where else ())),
        evidence=(Evidence(Source(str(place)), row.source),),
        remedies=(_remedy(row),),
    )


def _note(package: str, place: Text, rows: Sequence[VersionRow]) -> Answer:
    told = sorted(rows, key=_fixed, reverse=True)[:TOLD]
    summary = say("{release} has known defects in special circumstances ({count})", release=place, count=len(rows))
    return risk(
        CHECK,
        package,
        Cause.VERSION_MISMATCH,
        summary,
        certainty=Certainty.POSSIBLE,
        severity=Severity.NOTE,
        because=tuple(say("{symptom}: {which}", symptom=row.symptom, which=affected_releases(row)) for row in told),
        evidence=tuple(Evidence(Source(str(place)), row.source) for row in told),
        remedies=(_remedy(told[0]) if len(rows) == 1 else _newest(told[0]),),
    )


def _fixed(row: VersionRow) -> tuple[int, ...]:
    return version_numbers(row.fixed) or ()


def _newest(row: VersionRow) -> Remedy:
    """Of several defects the one that was fixed last decides; what is older may have another of them."""
    return _change(say("Update {package} to {fixed} or newer", package=package_name(row.package), fixed=row.fixed), "")


def _remedy(row: VersionRow) -> Remedy:
    return _change(recommended_release(row), row.workaround)


def _change(title: Text, workaround: str) -> Remedy:
    return Remedy(
        title,
        RemedyKind.CONFIG,
        say("or {workaround}", workaround=workaround) if workaround else Text(""),
        say("an upgrade to test"),
        say("unhang check --only versions"),
    )
