"""A folder of the job does not answer.

What happens: looking at a folder, or writing a few bytes to it, does not come back. The server behind the mount is gone
or overloaded.

Why it hangs: the rank that touches it stops inside the system call, where not even ``kill -9`` reaches it; the others
wait in their next collective.

Example: a hard NFS mount whose server was restarted; a frozen file system; a CephFS client that was evicted.

Fix: mount it again, or take another folder.

Certain when: never; it may be slow this once.

Possible when: a step was cut off at its limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, could_not, risk
from unhang.check.storage.storage import Storage
from unhang.findings import Cause, NotChecked, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "storage"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Every folder that was cut off, and those whose turn did not come."""
    result = here.result(Storage)
    gap = could_not(CHECK, say("The folders of the job"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    storage = result.found
    for place in storage.places:
        if place.hung:
            yield _silent(place.path, place.type, read=place.use == "data")
    for measured in storage.measured:
        if measured.hung:
            kind = next((place.type for place in storage.places_on(measured)), "")
            yield _silent(measured.folder, kind, read=measured.step == "reads")
    for folder in storage.left:
        because = say("the other folders took the time there was")
        yield NotChecked(
            say("How fast {folder} is", folder=folder),
            because,
            f"unhang check --only storage --path {folder}",
            check=CHECK,
        )


def _silent(folder: str, kind: str, *, read: bool) -> Answer:
    return risk(
        CHECK,
        folder,
        Cause.SLOW_DATA_LOADING if read else Cause.SINGLE_RANK_WORK,
        say("{folder} ({kind}) does not answer: a rank that touches it stops there", folder=folder, kind=kind or "?"),
        remedies=(
            Remedy(
                say("Bring the file system back, or take another folder"),
                RemedyKind.INFRASTRUCTURE,
                say("see dmesg for its server; umount -l and mount it again; or name a local folder"),
                say("jobs that use the mount now lose it"),
                say("unhang check --only storage --path {folder}", folder=folder),
            ),
        ),
    )
