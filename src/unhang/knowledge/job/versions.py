"""What is known of single versions (``versions.toml``), which versions a row affects, and which way leads out.

A defect is suspected in a log only where its ``signs`` are seen: that a version is affected says little by itself.
``affects`` is a list of conditions that all hold, in the spelling of ``pip``: ``>=2.19, <2.22.3``, ``==2.7.*``.
Where a row does not give it, it follows from ``introduced`` and ``fixed``, which say on which side of a release the
defect is.
Versions are compared as tuples of numbers; what follows the numbers (``+cu128``, ``rc1``) does not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unhang.errors import KnowledgeError
from unhang.knowledge.tables import read_rows, read_typed
from unhang.sentences import Text, say

Kind = Literal["fact", "bad", "trap", "unverified"]
"""``fact``: what a release ships; ``bad``: a defect; ``trap``: a surprise; ``unverified``: a claim."""
Sign = Literal[
    "stalled",
    "at-start",
    "all-to-all",
    "nvls",
    "sockets",
    "non-blocking",
    "more-than-80-ranks",
    "unequal-nodes",
    "aarch64",
    "all-joined",
]
"""What may be seen of a job that a defect needs; ``facts/machine/known_defect_signs.py`` looks for each."""
_CONDITION = re.compile(r"(>=|<=|==|<|>) ?(\d+(?:\.\d+)*)(\.\*)?")
_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")
_NAMES = {"nccl": "NCCL", "torch": "PyTorch", "trl": "TRL", "deepspeed": "DeepSpeed"}


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One thing known of some versions of a package."""

    package: str
    kind: Kind
    symptom: str
    source: str
    checked: str
    affects: str = ""
    """Conditions; empty = what lies between ``introduced`` and ``fixed``, and without these every version."""
    introduced: str = ""
    """The first release that has it; empty = as far back as anybody looked."""
    fixed: str = ""
    """The first release without it again; empty = none is known."""
    fixed_note: str = ""
    last_good: str = ""
    """The newest release before ``introduced`` that was seen to be well."""
    where: str = ""
    """What else has to hold (``aarch64 only``); a row with it is at most likely to fit."""
    triggered_by: str = ""
    """The package of which some releases alone bring it about: a row of its own says which."""
    workaround: str = ""
    torch_wheels: str = ""
    """PyTorch releases whose wheel carries it."""
    cuda: str = ""
    nccl: str = ""
    confirmed_by: str = ""
    signs: tuple[Sign, ...] = ()
    """All must be seen before the defect is suspected; none = it is never suspected from a log."""
    telling: tuple[Sign, ...] = ()
    """With these too it is more than a possibility."""

    def __post_init__(self) -> None:
        bounds = ((">=", self.introduced), ("<", self.fixed))
        between = ", ".join(f"{sign}{release}" for sign, release in bounds if release)
        object.__setattr__(self, "affects", self.affects or between)

    @property
    def single(self) -> bool:
        """It was seen in one release alone; of its neighbours nothing is known."""
        return self.affects.startswith("==") and not self.affects.endswith("*")


@cache
def version_rows() -> tuple[VersionRow, ...]:
    """All rows of ``versions.toml``."""
    rows = read_rows("versions.toml", "version", VersionRow)
    for row in rows:
        version_matches(row.affects, (0,))
        if not _is_in_order(row):
            raise KnowledgeError(f"versions.toml: {row.symptom}: introduced, fixed and affects contradict each other")
    return rows


def rows_affecting(package: str, version: str, kinds: tuple[Kind, ...] = ()) -> tuple[VersionRow, ...]:
    """Rows of ``package`` that affect ``version``; of every kind where ``kinds`` is empty. A version has a number."""
    numbers = version_numbers(version)
    if numbers is None:
        return ()
    name = package.lower()
    return tuple(
        row
        for row in version_rows()
        if row.package == name and (not kinds or row.kind in kinds) and version_matches(row.affects, numbers)
    )


def rows_fixed_in(package: str, version: str) -> tuple[VersionRow, ...]:
    """Defects that ``version`` is the way out of: it is the release that fixed them, or the last one before them."""
    numbers = version_numbers(version)
    return tuple(
        row
        for row in version_rows()
        if row.package == package.lower()
        and numbers is not None
        and any(_compared("==", numbers, limit) for limit in map(version_numbers, (row.fixed, row.last_good)) if limit)
    )


def version_numbers(version: str) -> tuple[int, ...] | None:
    """``(2, 13, 0)`` of ``2.13.0+cu128``; None when it does not start with a number."""
    found = _NUMBERS.match(version.strip())
    return tuple(int(part[:9]) for part in found[1].split(".")) if found else None


def version_matches(conditions: str, version: tuple[int, ...]) -> bool:
    """Whether all ``conditions`` hold for ``version``. Raises :class:`KnowledgeError` for one that cannot be read."""
    return all(_holds(condition.strip(), version) for condition in conditions.split(",") if condition.strip())


def _holds(condition: str, version: tuple[int, ...]) -> bool:
    found = _CONDITION.fullmatch(condition)
    if found is None or (found[3] and found[1] != "=="):
        raise KnowledgeError(f"versions.toml: {condition!r} is not a condition")
    limit = tuple(int(part) for part in found[2].split("."))
    if found[3]:
        return version[: len(limit)] == limit
    return _compared(found[1], version, limit)


def _compared(sign: str, version: tuple[int, ...], limit: tuple[int, ...]) -> bool:
    length = max(len(limit), len(version))
    mine, theirs = (numbers + (0,) * (length - len(numbers)) for numbers in (version, limit))
    return {"<": mine < theirs, "<=": mine <= theirs, "==": mine == theirs, ">=": mine >= theirs, ">": mine > theirs}[
        sign
    ]


def _is_in_order(row: VersionRow) -> bool:
    """The release that introduced it has it; the one before and the one that fixed it have it not."""
    wanted = ((row.introduced, True), (row.fixed, False), (row.last_good, False))
    told = ((version_numbers(release), has_it) for release, has_it in wanted if release)
    return all(numbers is not None and version_matches(row.affects, numbers) is has_it for numbers, has_it in told)


def package_name(package: str) -> str:
    """As its makers write it."""
    return _NAMES.get(package, package)


def affected_releases(row: VersionRow) -> Text:
    """Which releases have the defect of ``row``, as far as is known."""
    if row.single:
        return say("seen in {version}", version=row.affects.removeprefix("==").strip())
    if row.introduced and row.fixed:
        return say("from {introduced} on, fixed in {fixed}", introduced=row.introduced, fixed=row.fixed)
    if row.fixed:
        return say("in releases older than {fixed}", fixed=row.fixed)
    if row.introduced:
        return say("from {introduced} on", introduced=row.introduced)
    return say("in {versions}", versions=row.affects or "*")


def recommended_release(row: VersionRow) -> Text:
    """The title of the remedy: never a release that has the defect."""
    package = package_name(row.package)
    older = row.last_good
    if row.fixed and older:
        return say(
            "Update {package} to {fixed} or newer, or go back to {good}", package=package, fixed=row.fixed, good=older
        )
    if row.fixed and row.introduced and not row.single:
        return say(
            "Update {package} to {fixed} or newer, or use one older than {introduced}",
            package=package,
            fixed=row.fixed,
            introduced=row.introduced,
        )
    if row.fixed:
        return say("Update {package} to {fixed} or newer", package=package, fixed=row.fixed)
    if older:
        return say("Go back to {package} {good}", package=package, good=older)
    if row.introduced and not row.single:
        return say("Use a release of {package} older than {introduced}", package=package, introduced=row.introduced)
    return say("Use another release of {package}", package=package)


def torch_version_from_line(message: str, line: int) -> tuple[str, ...]:
    """Releases of torch (PyPI wheels) in which ``message`` stands at ``line`` of ProcessGroupNCCL.cpp.

    ``message`` is the ``fingerprint`` of a message row (``watchdog_timeout``). An empty tuple means another
    build (a vendor's or one's own) or an unknown release.
    """
    table = _torch_lines()
    numbers = zip(table.releases, table.lines.get(message, ()), strict=False)
    return tuple(release for release, number in numbers if number == line != 0)


@dataclass(frozen=True, slots=True)
class _TorchLines:
    """At which line each release has each message; 0 where it has none."""

    releases: tuple[str, ...]
    lines: Mapping[str, tuple[int, ...]]


@cache
def _torch_lines() -> _TorchLines:
    return read_typed("torch_lines.toml", _TorchLines)


@dataclass(frozen=True, slots=True)
class TimeoutRow:
    """The default limit of one component in some versions."""

    component: str
    versions: str
    default: str
    """As said: ``600 s``, ``default of the class: 600 for nccl, 1800 otherwise``."""
    source: str
    checked: str
    default_s: float | None = None
    """Seconds, where it is one number."""
    knob: str = ""
    note: str = ""


def timeouts_with_default(seconds: float) -> tuple[TimeoutRow, ...]:
    """Components whose default is exactly ``seconds``: where a limit in a log may come from."""
    rows = read_rows("timeouts.toml", "timeout", TimeoutRow)
    return tuple(row for row in rows if row.default_s is not None and row.default_s == seconds)
