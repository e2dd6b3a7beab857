"""What the job's folders lie on.

What happens: logs go to a shared file system, or checkpoints to memory or to the layer of a container.

Why it hangs: it does not by itself; a shared file system stalls when others use it, and then the rank that logs stops.
One that cannot append (an object store behind FUSE) writes the whole log again each time, and takes longer each time.
What lies in memory or in a container's layer is gone when the job is started again.

Example: ``logging_dir`` in a home folder on NFS; ``output_dir`` in ``/workspace`` that no volume is mounted at.

Fix: logs to memory or a local disk, checkpoints to a volume that stays.

Certain when: the kernel names the file system.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.wording.log_writing_remedies import log_remedies
from unhang.check.risks.risk import Answer, risk
from unhang.check.storage.storage import JobPath, Storage
from unhang.findings import Cause, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.hardware.file_systems import FileSystemRow, file_system_row
from unhang.sentences import say

CHECK = "storage"
_UNFIT = {"shared": ("logs",), "memory": ("checkpoints",), "container": ("checkpoints", "dumps")}


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Name what each place lies on; a note where it does not fit the use."""
    storage = here.found(Storage)
    for place in storage.places if storage is not None else ():
        row = file_system_row(place.type)
        if row is None:
            continue
        if place.use in _UNFIT[row.kind]:
            yield _note(place, row)
        else:
            yield PassedCheck(
                CHECK, say("{path} lies on {name} ({kind})", path=place.path, name=row.name, kind=place.type)
            )


def _note(place: JobPath, row: FileSystemRow) -> Answer:
    return risk(
        CHECK,
        place.path,
        Cause.SINGLE_RANK_WORK if row.kind == "shared" else Cause.RANK_CRASHED,
        say(
            "{path} for {use} lies on {name} ({kind}): {effect}",
            path=place.path,
            use=place.use,
            name=row.name,
            kind=place.type,
            effect=row.effect,
        ),
        severity=Severity.SLOWS if row.rewrites else Severity.NOTE,
        evidence=(place.evidence,) if place.evidence is not None else (),
        remedies=log_remedies() if row.kind == "shared" else (_a_volume(),),
    )


def _a_volume() -> Remedy:
    return Remedy(
        say("Write to a volume that outlives the job"),
        RemedyKind.CONFIG,
        say("docker run -v; a Kubernetes volume; a folder on the cluster's storage"),
        say("slower than memory"),
        say("unhang check --only storage"),
    )
