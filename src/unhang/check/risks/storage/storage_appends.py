"""Small synced appends are slow where the job writes its logs.

What happens: a metrics log writes a line and waits until it is on the disk. On a shared file system that is a round
trip to a server that others use too.

Why it hangs: one rank writes, the others wait in the next collective: every step takes as long as the log. When the
server stalls for minutes, the others reach their limit.

Example: TensorBoard on NFS, flushed every step; ``wandb`` offline files on an object store.

Fix: log to a local disk or to memory and copy from there; flush less often; log from a thread.

Certain when: never; how often the job writes is not known.

Possible when: an append takes longer than a twentieth of a step of one second.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.storage.rounded_figures import rounded
from unhang.check.storage.storage import Storage, StorageMeasurement
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.sentences import say

CHECK = "storage"
STEP_S = 1.0
NOTED_S = threshold("storage_appends.noted_s")
SLOW_S = threshold("storage_appends.slow_s")
ENOUGH_MEMORY = whole_threshold("storage_appends.enough_memory")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the appends of every file system the job writes to."""
    storage = here.found(Storage)
    for measured in storage.of("appends") if storage is not None else ():
        if storage is None or measured.typical_s is None:
            continue
        if measured.typical_s <= NOTED_S:
            parts = {"ms": rounded(measured.typical_s * 1e3), "need": rounded(NOTED_S * 1e3)}
            said = say("a synced append to {folder} takes {ms} ms ({need} would do)", folder=measured.folder, **parts)
            yield PassedCheck(CHECK, said)
        else:
            yield _slow(measured, measured.typical_s, storage)


def _slow(measured: StorageMeasurement, typical_s: float, storage: Storage) -> Answer:
    places = storage.places_on(measured)
    return risk(
        CHECK,
        measured.folder,
        Cause.SINGLE_RANK_WORK,
        say(
            "A synced append to {folder} ({kind}) takes {ms} ms, the slowest {worst} ms; "
            "a rank that logs every step holds the others up that long",
            folder=measured.folder,
            kind=next((place.type for place in places if place.type), "?"),
            ms=rounded(typical_s * 1e3),
            worst=rounded(max(measured.seconds) * 1e3),
        ),
        severity=Severity.SLOWS if typical_s > SLOW_S else Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        because=(
            say(
                "assumed: a step of {step:.0f} s, one append a step; a twentieth of it, {need} ms, would be fine",
                step=STEP_S,
                need=rounded(NOTED_S * 1e3),
            ),
        ),
        evidence=tuple(place.evidence for place in places if place.evidence is not None)[:3],
        remedies=tuple(_remedies(storage)),
    )


def _remedies(storage: Storage) -> Iterator[Remedy]:
    if storage.memory_free >= ENOUGH_MEMORY:
        yield Remedy(
            say("Log to memory and copy from there"),
            RemedyKind.CONFIG,
            say(
                "logging_dir=/dev/shm/logs ({free} GB are free there), and rsync it now and then",
                free=storage.memory_free >> 30,
            ),
            say("what was not copied is lost when the machine goes down"),
            say("unhang check --only storage --path /dev/shm"),
        )
    yield Remedy(
        say("Write less often, or from a thread"),
        RemedyKind.CODE,
        say("logging_steps=50; SummaryWriter(flush_secs=120); or a thread that writes what the loop hands it"),
        say("a crash loses the last lines"),
        say("unhang run shows what the rank does between steps"),
    )
