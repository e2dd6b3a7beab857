"""Releases that are known to hang, to be fixed, or to be the ones to go back to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from unhang.check.environment.environment import AskedPackage, MissingNames, OwnChecks, Requirements, Versions
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Evidence, PassedCheck, Remedy, Severity, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.versions import (
    VersionRow,
    affected_releases,
    package_name,
    recommended_release,
    rows_affecting,
    rows_fixed_in,
    version_numbers,
)
from unhang.sentences import Text, first_names

ROWS = RiskRows("versions")
TOLD = 4
"""So many defects of a range, or packages, are told in words; the rest are counted."""


def version_known(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each exact row, one note for all ranges of a package."""
    result = here.result(Versions)
    yield from ROWS.gap("version-of-torch", result)
    if result.found is None:
        return
    asked = here.found(Requirements)
    unlike = {one.name for one in asked.differing} if asked is not None else set()
    for package, version in sorted(result.found.of.items()):
        answers = _of_package(package, version, _release(result.found, package, version), result.found.of)
        yield from (one for one in answers if package not in unlike or not isinstance(one, PassedCheck))
    for package, (allowed, place) in sorted(result.found.allowed.items()):
        because = ROWS.words("several-allowed", place=place, allowed=allowed)
        how = f"unhang check --assume {package}=VERSION"
        yield ROWS.could_not("which-release", because, how, package=package_name(package))


def _of_package(package: str, version: str, release: Text, known: Mapping[str, str]) -> Iterator[Answer]:
    affecting = rows_affecting(package, version, kinds=("bad", "unverified"))
    rows = [row for row in affecting if row.triggered_by not in known]  # whose own row speaks where it does
    exact = [row for row in rows if row.single]
    ranges = [row for row in rows if row not in exact and row.fixed]
    for row in exact:
        yield ROWS.risk(
            "known-defect",
            {"package": package, "release": release, "symptom": row.symptom},
            severity=Severity.NOTE if row.kind == "unverified" else Severity.SLOWS,
            because=(affected_releases(row), *((Text("{where}", {"where": row.where}),) if row.where else ())),
            evidence=(Evidence(Source(str(release)), row.source),),
            remedies=(_change(recommended_release(row), row.workaround),),
        )
    if ranges:
        yield _defects_of_ranges(package, release, ranges)
    helped = [row for row in rows_fixed_in(package, version) if row.kind in ("bad", "unverified")]
    for row in helped[:TOLD]:
        fixed_it = _fixed(row) == version_numbers(version)
        name = "fixed-here" if fixed_it else "go-back-to-this"
        yield ROWS.fine(name, release=release, symptom=row.symptom, introduced=row.introduced)
    if not exact and not ranges and not helped:
        yield ROWS.fine("release", release=release)


def _release(versions: Versions, package: str, version: str) -> Text:
    """The release, and where it is known from where the package itself does not tell."""
    named = Text("{package} {version}", {"package": package_name(package), "version": version})
    origin = versions.origin.get(package)
    return ROWS.words("release-and-origin", release=named, origin=origin) if origin is not None else named


def _defects_of_ranges(package: str, release: Text, rows: Sequence[VersionRow]) -> Answer:
    told = sorted(rows, key=_fixed, reverse=True)[:TOLD]
    newest = told[0]
    # Of several defects the one that was fixed last decides; what is older may have another of them.
    if len(rows) == 1:
        remedy = _change(recommended_release(newest), newest.workaround)
    else:
        remedy = _change(ROWS.words("update", package=package_name(newest.package), fixed=newest.fixed), "")
    return ROWS.risk(
        "defects-of-ranges",
        {"package": package, "release": release, "count": len(rows)},
        because=tuple(ROWS.words("symptom", symptom=row.symptom, which=affected_releases(row)) for row in told),
        evidence=tuple(Evidence(Source(str(release)), row.source) for row in told),
        remedies=(remedy,),
    )


def _fixed(row: VersionRow) -> tuple[int, ...]:
    return version_numbers(row.fixed) or ()


def _change(title: Text, workaround: str) -> Remedy:
    change = ROWS.words("or-workaround", workaround=workaround) if workaround else Text("")
    return ROWS.remedy("another-release", {"title": title}, change=change)


def version_asked_for(here: NodeInspection) -> Iterator[Answer]:
    """What the project asks for and the environment does not have; files of the project that contradict each other."""
    if Requirements not in here.results:
        return
    yield from ROWS.gap("requirements", here.result(Requirements))
    asked = here.found(Requirements)
    if asked is None:
        return
    imported = [one for one in asked.differing if one.imported]
    for one in imported:
        values = {"place": one.imported, "module": one.module, "where": one.place, "asked": one.asked}
        values |= {"installed": one.installed, "command": asked.install}
        weight = Severity.NOTE if one.installed.startswith("0.") else None  # many such releases get on with each other
        yield ROWS.risk("another-major" if one.installed else "import-missing", values, severity=weight)
    others = [one for one in asked.differing if one not in imported]
    if others:
        yield _not_as_asked(asked, others)
    elif asked.count and not imported:
        yield ROWS.fine("as-asked", count=asked.count)
    for one, other in asked.contradictions[:1]:
        values = {"one": one.asked, "place": one.place, "other": other.asked, "where": other.place}
        names = dict.fromkeys(pair[0].name for pair in asked.contradictions if pair[0].name != one.name)
        more = first_names(list(names), TOLD)
        yield ROWS.risk("contradiction", values, because=(ROWS.words("contradict-too", names=more),) if more else ())


def version_has_the_names(here: NodeInspection) -> Iterator[Answer]:
    """What the launch imports, and the release that is installed does not have."""
    for one in (here.found(MissingNames) or MissingNames()).names[:TOLD]:
        place = f"{one.path}:{one.line}"
        values = {"place": place, "module": one.module, "name": one.name, "package": one.module.partition(".")[0]}
        where = Where(one.path, one.line, "<module>")
        yield ROWS.risk("module-missing" if one.is_module else "name-missing", values, where=where)


def version_demanded(here: NodeInspection) -> Iterator[Answer]:
    """The program's own checks of releases: they pass, or every rank ends there."""
    for one in (here.found(OwnChecks) or OwnChecks(())).checks:
        installed = ", ".join(f"{package} {version}" for package, version in one.installed)
        values = {"place": f"{one.path}:{one.line}", "formula": one.formula, "installed": installed}
        if one.holds:
            yield ROWS.fine("own-check", **values)
        else:
            evidence = (Evidence(Source(one.path, one.line), one.formula),)
            yield ROWS.risk("own-check", values, where=Where(one.path, one.line, "<module>"), evidence=evidence)


def _not_as_asked(asked: Requirements, differing: Sequence[AskedPackage]) -> Answer:
    heavy, rest = [one for one in differing if one.stalls], [one.name for one in differing if not one.stalls]
    because = [ROWS.words("other-release" if one.installed else "not-there", **asdict(one)) for one in heavy]
    because += [ROWS.words("rest", count=len(rest), names=first_names(rest, TOLD))] if rest else []
    because += [ROWS.words("of-python", python=asked.python)]
    because += [ROWS.words("index", index=asked.index)] if asked.index else []
    names = first_names([one.name for one in differing], TOLD)
    values = {"place": differing[0].place, "names": names, "command": asked.install}
    return ROWS.risk("not-as-asked", values, because=tuple(because))


RISKS = asked_of_a_node("versions", version_known, version_asked_for, version_has_the_names, version_demanded)
