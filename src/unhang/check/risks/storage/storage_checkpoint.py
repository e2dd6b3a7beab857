"""A checkpoint takes longer to write than the ranks wait.

What happens: rank 0 gathers the weights and writes them alone; the others stand in a barrier until it is done.

Why it hangs: on a slow disk that takes longer than the limit of the collective, and the watchdog ends the job in the
middle of a save that would have ended.

Example: 14 GB to an NFS export that takes 20 MB/s, with the default limit of 600 s.

Fix: save shards from all ranks (torch.distributed.checkpoint), to a fast disk, or asynchronously; or raise the limit.

Certain when: never; the size of the checkpoint is not known.

Possible when: the weights of a model with 7 billion parameters would take more than half of the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.timers import Timers
from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.storage.rounded_figures import rounded
from unhang.check.storage.storage import Storage, StorageMeasurement
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.sentences import say

CHECK = "storage"
WEIGHTS = whole_threshold("storage_checkpoint.weights")
LIMIT_SHARE = threshold("storage_checkpoint.limit_share")
DEFAULT_LIMIT_S = 600.0
_SAVED_TO = ("checkpoints", "named", "current")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the rate of every file system the job writes to, beside the shortest limit of a collective."""
    storage, limit_s = here.found(Storage), _limit_s(here)
    for measured in storage.of("write") if storage is not None else ():
        rate = measured.bytes_per_s
        if storage is None or rate is None or not any(p.use in _SAVED_TO for p in storage.places_on(measured)):
            continue
        takes_s = WEIGHTS / rate
        if takes_s <= LIMIT_SHARE * limit_s:
            parts = {"rate": rounded(rate / 1e6), "need": rounded(WEIGHTS / (LIMIT_SHARE * limit_s) / 1e6)}
            said = say("{folder} takes {rate} MB/s in large writes ({need} would do)", folder=measured.folder, **parts)
            yield PassedCheck(CHECK, said)
        else:
            yield _slow(measured, storage, rate, takes_s, limit_s)


def _limit_s(here: NodeInspection) -> float:
    timers = here.found(Timers)
    limits = timers.of("collective", "later steps", "first steps") if timers is not None else ()
    return limits[0].seconds if limits else DEFAULT_LIMIT_S


def _slow(measured: StorageMeasurement, storage: Storage, rate: float, takes_s: float, limit_s: float) -> Answer:
    return risk(
        CHECK,
        measured.folder,
        Cause.TIMEOUT_TOO_SHORT,
        say(
            "{folder} takes {rate} MB/s: rank 0 would write for {takes} s, and the others wait for {limit} s at most",
            folder=measured.folder,
            rate=rounded(rate / 1e6),
            takes=round(takes_s),
            limit=round(limit_s),
        ),
        severity=Severity.SLOWS if takes_s > limit_s else Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        because=(
            say(
                "assumed: {size} GB, the weights of 7 billion parameters in 16 bits, written by one rank",
                size=round(WEIGHTS / 1e9),
            ),
        ),
        evidence=tuple(p.evidence for p in storage.places_on(measured) if p.evidence is not None)[:3],
        remedies=(
            Remedy(
                say("Save shards from all ranks, or asynchronously, or to a faster disk"),
                RemedyKind.CODE,
                say("torch.distributed.checkpoint.async_save; fsdp_state_dict_type: SHARDED_STATE_DICT"),
                say("shards must be joined before the weights are used elsewhere"),
                say("unhang check --only storage"),
            ),
            Remedy(
                say("Let the others wait longer"),
                RemedyKind.CODE,
                say("init_process_group(timeout=timedelta(seconds={seconds}))", seconds=int(round(takes_s * 2, -2))),
                say("a real hang is noticed that much later"),
                say("unhang check --only timers"),
            ),
        ),
    )
