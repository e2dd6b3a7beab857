"""Pages of single versions (``torch 2.7.0``) and of limits (``1800 s``): what is known of them."""

from __future__ import annotations

import re

from unhang.knowledge.job.versions import (
    VersionRow,
    affected_releases,
    recommended_release,
    rows_affecting,
    rows_fixed_in,
    timeouts_with_default,
    version_numbers,
    version_rows,
)
from unhang.report.explain.page import ExplanationPage, PageLine
from unhang.sentences import Text, say

_VERSION = re.compile(r"(?P<package>驱动|[A-Za-z][\w-]{1,30})\s*(?:==|=|\s)\s*v?(?P<version>\d+(?:\.\d+)+\S{0,20})$")
_LIMIT = re.compile(
    r"(?:Timeout\(ms\)\s*=\s*|默认|default\s*)?(?P<number>\d{1,12})\s*(?P<unit>ms|s|sec|seconds|min|minutes|秒|毫秒|分钟)?$"
)
_SECONDS = {"ms": 0.001, "毫秒": 0.001, "min": 60.0, "minutes": 60.0, "分钟": 60.0}
_SHORTEST_BARE = 600
"""A number without a unit is taken for a limit from here on; smaller ones are codes."""
_OTHER_NAMES = {"pytorch": "torch", "driver": "nvidia-driver", "驱动": "nvidia-driver", "llamafactory": "llama-factory"}
_LABELS: dict[str, Text] = {"fact": say("Known"), "bad": say("Defect"), "trap": say("Trap"), "unverified": say("Claim")}


def version_page(text: str) -> ExplanationPage | None:
    """What is known of one release of a package; None for other words and packages without a row."""
    found = _VERSION.match(text.strip())
    if found is None or version_numbers(found["version"]) is None:
        return None
    package = _OTHER_NAMES.get(found["package"].lower(), found["package"].lower())
    if package not in {row.package for row in version_rows()}:
        return None
    rows = sorted(rows_affecting(package, found["version"]), key=lambda row: list(_LABELS).index(row.kind))
    ways_out = [row for row in rows_fixed_in(package, found["version"]) if row not in rows]
    return ExplanationPage(
        kind="version",
        title=f"{package} {found['version']}",
        meaning=(
            say("Known about this version ({count}):", count=len(rows) + len(ways_out))
            if rows or ways_out
            else say("No defect of this version is known here."),
        ),
        details=(
            *((_LABELS[row.kind], _row_text(row)) for row in rows),
            *((say("Way out of"), _row_text(row)) for row in ways_out),
        ),
        causes=("version-mismatch",),
        source="; ".join(dict.fromkeys(row.source for row in (*rows, *ways_out))),
        checked=rows[0].checked if rows else "",
    )


def limit_page(text: str) -> ExplanationPage | None:
    """Whose default a limit is; None when ``text`` is no time, or nobody's default."""
    found = _LIMIT.match(text.strip())
    if found is None:
        return None
    number, unit = int(found["number"]), found["unit"] or ("ms" if "(ms)" in text else "")
    if not unit and number < _SHORTEST_BARE:
        return None
    seconds = number * _SECONDS.get(unit, 1.0)
    rows = timeouts_with_default(seconds)
    if not rows and not unit:
        # torch prints its limits in milliseconds, and people paste the number alone.
        seconds = number / 1000
        rows = timeouts_with_default(seconds)
    if not rows:
        return None
    details: list[tuple[Text, PageLine]] = [
        (say("Default of"), f"{row.component} ({row.versions})" + (f": {row.knob}" if row.knob else "")) for row in rows
    ]
    return ExplanationPage(
        kind="limit",
        title=f"{seconds:g} s",
        meaning=(say("Default limits of {seconds:g} s, and the setting that changes each:", seconds=seconds),),
        details=tuple(details),
        causes=("timeout-too-short",),
        source="; ".join(dict.fromkeys(row.source for row in rows)),
        checked=rows[0].checked,
    )


def _row_text(row: VersionRow) -> PageLine:
    said: PageLine = say("{symptom} ({where})", symptom=row.symptom, where=row.where) if row.where else row.symptom
    if row.kind != "fact" and (row.introduced or row.fixed):
        which = affected_releases(row)
        which = say("{symptom} ({where})", symptom=which, where=row.fixed_note) if row.fixed_note else which
        said = say("{symptom}. Affected: {which}. {remedy}", symptom=said, which=which, remedy=recommended_release(row))
    return say("{symptom}. Workaround: {way}", symptom=said, way=row.workaround) if row.workaround else said
