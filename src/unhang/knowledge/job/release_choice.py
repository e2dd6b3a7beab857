"""Which release to take, by the side on which a known defect lies: newer than its fix, or older than its start."""

from __future__ import annotations

from unhang.knowledge.job.versions import VersionRow
from unhang.sentences import Text, say

_NAMES = {"nccl": "NCCL", "torch": "PyTorch", "trl": "TRL", "deepspeed": "DeepSpeed"}


def package_name(package: str) -> str:
    """As its makers write it."""
    return _NAMES.get(package, package)


def affected_releases(row: VersionRow) -> Text:
    """Which releases have the defect of ``row``, as far as is known."""
    if row.single:
        return say("seen in {version}", version=row.affects.removeprefix("==").strip())
    if row.introduced and row.fixed:
        return say("from {introduced} up to {fixed}, where it is fixed", introduced=row.introduced, fixed=row.fixed)
    if row.fixed:
        return say("in what is older than {fixed}", fixed=row.fixed)
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
