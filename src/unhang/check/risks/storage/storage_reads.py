"""The data is slow to read.

What happens: a sample takes longer to come than the step it is for.

Why it hangs: the ranks whose samples are late hold the others up in every step; when the storage stalls, for minutes.

Example: images in a folder on NFS or on an object store, read one by one, two workers a rank.

Fix: copy the data to a local disk, or pack it into large files that are read in order; more workers and prefetching.

Certain when: never; how many samples a step needs is not known.

Possible when: one worker cannot bring the samples of one rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.storage.rounded_figures import rounded
from unhang.check.storage.storage import Storage
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import whole_threshold
from unhang.sentences import say

CHECK = "storage"
SAMPLES_PER_S = whole_threshold("storage_reads.samples_per_s")
USUAL_WORKERS = whole_threshold("storage_reads.usual_workers")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge random reads of every file system the data lies on."""
    storage = here.found(Storage)
    for measured in storage.of("reads") if storage is not None else ():
        typical_s = measured.typical_s
        if storage is None or typical_s is None:
            continue
        workers = math.ceil(typical_s * SAMPLES_PER_S)
        parts = {"folder": measured.folder, "ms": rounded(typical_s * 1e3)}
        if workers <= 1:
            yield PassedCheck(
                CHECK,
                say(
                    "a random read in {folder} takes {ms} ms ({need} would do)",
                    **parts,
                    need=rounded(1e3 / SAMPLES_PER_S),
                ),
            )
            continue
        yield risk(
            CHECK,
            measured.folder,
            Cause.SLOW_DATA_LOADING,
            say(
                "A random read in {folder} takes {ms} ms: a rank needs {workers} workers to keep up",
                **parts,
                workers=workers,
            ),
            severity=Severity.SLOWS if workers > USUAL_WORKERS else Severity.NOTE,
            certainty=Certainty.POSSIBLE,
            because=(say("assumed: {count} samples a second and rank, 64 KB each", count=SAMPLES_PER_S),),
            evidence=tuple(p.evidence for p in storage.places_on(measured) if p.evidence is not None)[:3],
            remedies=(
                Remedy(
                    say("Copy the data to a local disk, or read it in order from large files"),
                    RemedyKind.INFRASTRUCTURE,
                    say("or num_workers={workers} and prefetch_factor=4 for the data loader", workers=workers),
                    say("space on the local disk; memory for what is prefetched"),
                    say("unhang check --only storage --path {folder}", folder=measured.folder),
                ),
            ),
        )
