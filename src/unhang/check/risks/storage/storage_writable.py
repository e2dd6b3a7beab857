"""The job cannot use a folder it names.

What happens: an output folder may not be written, is on a file system that is read-only or full, or the data is not
there.

Why it hangs: the rank that writes (often rank 0 alone) or reads ends with an error; the others wait for it.

Example: ``--output_dir /checkpoints`` on a read-only mount; ``--data_dir /data/train`` that only one node has.

Fix: name a folder that this user may write on every node; mount the data.

Certain when: never; the job may run as another user, or on other nodes.

Possible when: the system refuses here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.storage.rounded_figures import rounded
from unhang.check.storage.storage import JobPath, Storage, StorageMeasurement
from unhang.findings import Cause, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "storage"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Every place that cannot be used; and what was done to find out."""
    storage = here.found(Storage)
    if storage is None:
        return
    for place in storage.places:
        if place.hung:
            continue
        if place.use == "data" and not place.exists:
            yield _found(place, say("The data {path} is not there on this node", path=place.path))
        elif place.use == "dumps" and place.evidence is not None and not place.exists and not place.trouble:
            yield _found(place, say("{path} is not there, and torch does not make it: no dump", path=place.path))
        elif place.trouble:
            yield _found(place, say("{path}: {reason}", path=place.path, reason=place.trouble))
        elif place.written and not place.writable:
            yield _found(place, say("{path} may not be written here", path=place.path))
        else:
            refused = next(_refused(storage, place), None)
            if refused is not None:
                yield _found(place, say("{path}: {reason}", path=place.path, reason=refused.trouble))
    if storage.bytes_written:
        yield PassedCheck(CHECK, _what_was_done(storage))


def _refused(storage: Storage, place: JobPath) -> Iterator[StorageMeasurement]:
    """Steps that the system refused where they speak for ``place``; that it is full is told by its free space."""
    for one in storage.measured:
        if one.trouble not in ("", os.strerror(errno.ENOSPC)) and not one.hung and place in storage.places_on(one):
            yield one


def _found(place: JobPath, summary: Text) -> Answer:
    data = place.use == "data"
    return risk(
        CHECK,
        place.path,
        Cause.UNKNOWN if place.use == "dumps" else Cause.RANK_CRASHED,
        summary,
        severity=Severity.NOTE if place.use in ("current", "named", "dumps") else Severity.STOPS,
        evidence=(place.evidence,) if place.evidence is not None else (),
        remedies=(
            Remedy(
                say("Name the folder where the data is, on every node")
                if data
                else say("Name a folder that this user may write on every node"),
                RemedyKind.CONFIG,
                say("or mount it where it is missing") if data else say("or remount it writable, or free space on it"),
                say("none"),
                say("unhang check --only storage --path {folder}", folder=place.path),
            ),
        ),
    )


def _what_was_done(storage: Storage) -> Text:
    folders = ", ".join(dict.fromkeys(one.folder for one in storage.measured if one.bytes and one.step != "reads"))
    return say(
        "{written} MB were written to nameless files in {folders}, and are gone again",
        written=rounded(storage.bytes_written / 1e6),
        folders=folders,
    )
