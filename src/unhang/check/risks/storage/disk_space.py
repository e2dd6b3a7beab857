"""Too little room where the job writes.

What happens: the disk, or the quota of inodes, is full before the job or by its first checkpoint.

Why it hangs: rank 0 fails in the middle of a save while the others wait; dumps that would have told why are empty.

Example: ``output_dir`` on a root disk of a cloud machine with 10 GB left; a shared scratch that is 100 % full.

Fix: free space, or name a larger disk; keep fewer checkpoints (``save_total_limit``).

Certain when: never before the job writes.

Possible when: less than a checkpoint is free.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.storage.rounded_figures import rounded
from unhang.check.storage.storage import JobPath, Storage
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import whole_threshold
from unhang.sentences import say

CHECK = "storage"
NOTHING = whole_threshold("disk_space.nothing")
MIN_FILES = whole_threshold("disk_space.min_files")
LITTLE = whole_threshold("disk_space.little")
_FOR = {"current": "files", "named": "files"}
CHECKPOINT = whole_threshold("disk_space.checkpoint")
"""14 bytes for each of 7 billion parameters: weights, their copy in 32 bits, two moments."""


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge what is free, once a file system and use."""
    storage = here.found(Storage)
    seen: set[tuple[str, str]] = set()
    for place in storage.places if storage is not None else ():
        key = (place.device, place.use)
        if place.written and place.writable and place.size and key not in seen:
            seen.add(key)
            yield _judged(place)


def _judged(place: JobPath) -> Answer:
    free = rounded(place.free / 1e9)
    evidence = (place.evidence,) if place.evidence is not None else ()
    if place.free < NOTHING or (place.files_free is not None and place.files_free < MIN_FILES):
        left = {"free": place.free >> 20, "files": "?" if place.files_free is None else place.files_free}
        summary = say("{path} is full: {free} MB and {files} files are free", path=place.path, **left)
        severity = Severity.STOPS
    elif place.free < LITTLE and place.use != "dumps":
        summary = say(
            "Only {free} GB are free for {use} in {path}",
            free=free,
            use=_FOR.get(place.use, place.use),
            path=place.path,
        )
        severity = Severity.SLOWS if place.use == "checkpoints" else Severity.NOTE
    elif place.use == "checkpoints" and place.free < CHECKPOINT:
        summary = say(
            "{free} GB are free in {path}; a checkpoint of 7 billion parameters with their optimizer takes 98 GB",
            free=free,
            path=place.path,
        )
        severity = Severity.NOTE
    else:
        return PassedCheck(CHECK, say("{free} GB are free in {path}", free=free, path=place.path))
    return risk(
        CHECK,
        place.path,
        Cause.RANK_CRASHED,
        summary,
        severity=severity,
        certainty=Certainty.LIKELY if severity is Severity.STOPS else Certainty.POSSIBLE,
        evidence=evidence,
        remedies=(
            Remedy(
                say("Free space, or write to a larger disk"),
                RemedyKind.INFRASTRUCTURE,
                say("save_total_limit=2 keeps two checkpoints; save_only_model=True leaves the optimizer out"),
                say("a job that is started again without the optimizer's state learns anew"),
                say("df -h {path}; df -i {path}", path=place.path),
            ),
        ),
    )
