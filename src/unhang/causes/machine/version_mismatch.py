"""version-mismatch: NCCL, CUDA, driver, torch or a library on top of them has a bug, or they do not match.

What happens: ranks run different versions, a library was built for another GPU or another torch, or a version has a
known defect that fits the evidence.
Why it hangs: one side fails, or takes a path that the other ranks do not expect.
Example: `Mismatched NCCL version detected : rank 0 version 22703 rank 4 version 22602`.
Fix: one container image on all nodes; a version in which the defect is fixed.
Certain when: the library itself names the mismatch.
Possible when: only the version fits a known defect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import quote_waits
from unhang.causes.wording.signals import log_signal, ranks_if_few
from unhang.evidence.items import LogEvent
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.logs.log_statements import field_text, first_attempt, quote_events, ranks_of_events
from unhang.facts.logs.logged_values import LoggedVersion, logged_settings, logged_versions
from unhang.facts.machine.known_defect_signs import defect_signs
from unhang.facts.machine.nccl_reports import SegmentFailure, segment_failure, shared_host_identity
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade, Remedy, Severity
from unhang.knowledge.job.versions import VersionRow, rows_affecting
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

CAUSE = Cause.VERSION_MISMATCH
tell = Sentences("causes/version-mismatch.toml")
_LAUNCHES = {"ncclStrongStreamLaunchKernel", "ncclLaunchKernel", "cudaLaunchKernel", "ncclGroupEndInternal"}


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """What libraries say of versions, then what follows from two facts together."""
    for look in (_stated_mismatch, _not_built_for_it, _one_machine, _nameless_segment, _blocking_launch):
        answer = look(facts)
        if answer is not None:
            yield answer
            return


def _stated_mismatch(facts: Facts) -> DetectorResult | None:
    events = first_attempt(facts.events_of("n.mixver", "cuda.driver", "cuda.noimage", "py.symbol"))
    if not events:
        return None
    first = events[0]
    if first.kind == "n.mixver":
        summary = tell("nccl-differs", first=field_text(first, "a_version"), second=field_text(first, "b_version"))
    elif first.kind == "cuda.driver":
        summary = tell("driver-old")
    elif first.kind == "cuda.noimage":
        summary = tell("no-code-for-gpu")
    else:
        summary = tell("symbol-missing", symbol=field_text(first, "symbol"))
    return _found(events, Grade.STATED, summary, "use-one-image")


def _not_built_for_it(facts: Facts) -> DetectorResult | None:
    events = first_attempt(facts.events_of("n.maxshm"))
    failed = first_attempt(facts.events_of("n.cuda", "cuda.error"))
    if not events or not failed:
        return None
    return _found(
        (*events, *failed),
        Grade.STATED,
        tell("shared-memory", need=field_text(events[0], "bytes"), offer=field_text(events[0], "limit")),
        "use-matching-nccl-build",
        whole=False,
        because=(tell("launch-fails"),),
    )


def _one_machine(facts: Facts) -> DetectorResult | None:
    found = shared_host_identity(facts)
    if found is None:
        return None
    failed = first_attempt(facts.events_of("n.cuda", "ncclerr"))
    return _found(
        failed,
        Grade.STATED,
        tell("taken-for-one-machine", first=found.first_host, second=found.second_host, a=found.first, b=found.second),
        "set-unique-host-names",
        whole=False,
        because=(tell("host-name-equal"),),
        evidence=(found.evidence, *quote_events(failed)),
    )


def _nameless_segment(facts: Facts) -> DetectorResult | None:
    """NVIDIA/nccl pull request 2059: a handle of CUDA host memory is read as the name of a file in /dev/shm."""
    events = first_attempt(facts.events_of("n.shmseg", "n.shmopen"))
    if not events or segment_failure(events) is not SegmentFailure.NO_NAME:
        return None
    return _found(
        events,
        Grade.STATED,
        tell("shm-name"),
        "disable-nccl-cumem-host",
        whole=False,
        because=(tell("shm-never-made"), tell("known-of-224")),
    )


def _blocking_launch(facts: Facts) -> DetectorResult | None:
    setting = logged_settings(facts).get("CUDA_LAUNCH_BLOCKING")
    stacks = [e for e in facts.events_of("look.native") if field_text(e, "function") in _LAUNCHES]
    if setting is None or setting.value != "1" or not stacks:
        return None
    return _found(
        stacks,
        Grade.STACK,
        tell("launches-wait"),
        "unset-cuda-launch-blocking",
        because=(tell("inside-launch", ranks=ranks_of_events(stacks)),),
        evidence=(setting.evidence, *quote_events(stacks)),
    )


def _found(events: Sequence[LogEvent], grade: Grade, summary: Text, mended_by: str, **parts: Any) -> DetectorResult:
    return log_signal(grade, summary, events, mended_by, ranks=ranks_if_few(ranks_of_events(events)), **parts)


# ---------------------------------------------------------------------------------------------------
# known defects of a version


def detect_known(facts: Facts) -> Iterator[DetectorResult]:
    """Known defects of the versions printed, where the job shows what the defect needs and nothing failed by itself:
    `NCCL version 2.19.3`, and all ranks wait in an all-to-all. Never certain, for other causes look the same; a version
    alone is a note.
    """
    signs = defect_signs(facts)
    if "stalled" not in signs or primary_crashes(facts):
        return
    for used in logged_versions(facts):
        rows = [row for row in rows_affecting(used.package, used.version, ("bad",)) if row.signs]
        fitting = [row for row in rows if signs.issuperset(row.signs)]
        if fitting:
            yield _suspected(facts, used, max(fitting, key=lambda row: len(row.signs)), signs)
        elif narrow := [row for row in rows if row.introduced]:
            yield _noted(used, narrow[0])


def _suspected(facts: Facts, used: LoggedVersion, row: VersionRow, signs: frozenset[str]) -> DetectorResult:
    return make_signal(
        Grade.ORDER,
        tell("known-defect", package=used.package, version=used.version, defect=row.symptom),
        whole=bool(row.telling) and signs.issuperset(row.telling),
        because=(tell("known-from", source=row.source), tell("no-other-reason")),
        evidence=(used.evidence, *quote_waits(facts)),
        remedies=(*_newer(used, row), *_around(row)),
    )


def _noted(used: LoggedVersion, row: VersionRow) -> DetectorResult:
    return make_signal(
        Grade.BASE_RATE,
        tell("defect-not-shown", package=used.package, version=used.version, defect=row.symptom),
        severity=Severity.NOTE,
        because=(tell("known-from", source=row.source),),
        evidence=(used.evidence,),
        remedies=(*_newer(used, row), *_around(row)),
    )


def _newer(used: LoggedVersion, row: VersionRow) -> Iterator[Remedy]:
    if not row.fixed:
        return
    yield remedy("use-fixed-version", package=used.package, version=row.fixed, source=row.source)


def _around(row: VersionRow) -> Iterator[Remedy]:
    if not row.workaround:
        return
    yield remedy("apply-known-workaround", way=row.workaround)
