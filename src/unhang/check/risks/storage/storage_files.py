"""New files are slow to make.

What happens: making, looking at and removing a small file takes long; the server of the metadata is far or busy.

Why it hangs: checkpoints of many shards, lock files of a data-set cache and compiled kernels are hundreds of such
files, often made by one rank while the others wait.

Example: the data-set cache or the cache of compiled kernels in a home folder on NFS.

Fix: put caches on a local disk; write fewer, larger files.

Certain when: never.

Possible when: one file takes more than 20 ms.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.storage.rounded_figures import rounded
from unhang.check.storage.storage import Storage
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold
from unhang.sentences import say

CHECK = "storage"
NOTED_S = threshold("storage_files.noted_s")
SLOW_S = threshold("storage_files.slow_s")
MANY = 1000


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the metadata of every file system the job writes to."""
    storage = here.found(Storage)
    for measured in storage.of("files") if storage is not None else ():
        typical_s = measured.typical_s
        if storage is None or typical_s is None:
            continue
        parts = {"folder": measured.folder, "ms": rounded(typical_s * 1e3)}
        if typical_s <= NOTED_S:
            yield PassedCheck(
                CHECK,
                say("a new file in {folder} takes {ms} ms ({need} would do)", **parts, need=rounded(NOTED_S * 1e3)),
            )
            continue
        yield risk(
            CHECK,
            measured.folder,
            Cause.SINGLE_RANK_WORK,
            say(
                "A new file in {folder} takes {ms} ms: {many} of them take {seconds} s",
                **parts,
                many=MANY,
                seconds=round(MANY * typical_s),
            ),
            severity=Severity.SLOWS if typical_s > SLOW_S else Severity.NOTE,
            certainty=Certainty.POSSIBLE,
            because=(say("assumed: {many} small files (shards, locks, caches), made by one rank", many=MANY),),
            evidence=tuple(p.evidence for p in storage.places_on(measured) if p.evidence is not None)[:3],
            remedies=(
                Remedy(
                    say("Put caches and many small files on a local disk"),
                    RemedyKind.ENVIRONMENT,
                    say("HF_HOME, TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR name a local folder"),
                    say("each node fills its own cache once"),
                    say("unhang check --only storage"),
                ),
            ),
        )
