"""host-memory: the host ran out of memory or hit one of its limits: OOM killer, /dev/shm, locked memory, open files.

What happens: the kernel kills a process or a data-loader worker; NCCL cannot create its shared segment in a container;
the network card may not lock memory; or too many sockets are open.
Why it hangs: the process that lost its memory never reaches the next collective, or never finishes its set-up.
Example: `DataLoader worker (pid 4711) is killed by signal: Killed`; `failed to extend /dev/shm/nccl-… : No space left`.
Fix: `--shm-size=16g` (or `--ipc=host`), `--ulimit memlock=-1`, `ulimit -n 65536`, fewer workers, or a larger memory
request.
Certain when: the kernel, the scheduler or NCCL says so.
Possible when: SIGKILL or SIGBUS ended a process, and nothing says who sent it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from unhang.causes.detector import DetectorResult, Signal, make_signal
from unhang.causes.evidence_lines import hosts_of
from unhang.causes.wording.signals import log_signal, ranks_if_few, timeouts_after
from unhang.evidence.items import LogEvent
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.logs.log_statements import events_stating, field_text, first_attempt, hosts_of_events, ranks_of_events
from unhang.facts.logs.logged_values import logged_settings
from unhang.facts.machine.nccl_reports import SegmentFailure, segment_failure
from unhang.facts.model import Facts
from unhang.facts.worlds.roles_seen import is_of_engines
from unhang.findings import Cause, Consequence, Grade
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text, shortened

CAUSE = Cause.HOST_MEMORY
tell = Sentences("causes/host-memory.toml")
SIGKILL, SIGBUS = 9, 7
_SYSTEM_ERROR = "unhandled system error"
_BY_LAUNCHER = ("te.closing", "te.closefail", "ds.kill")
_NO_MEMORY = re.compile(r"Cannot allocate memory|ENOMEM")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """What the kernel, a scheduler, NCCL or Python say about memory; the first of them leads."""
    looks = (_killed, _shared_memory, _locked_memory, _open_files, _exception, _silent_kill)
    yield from (answer for look in looks if (answer := look(facts)) is not None)


def _killed(facts: Facts) -> DetectorResult | None:
    events = list(events_stating(facts, "host-memory"))
    loader = [
        e for e in first_attempt(facts.events_of("dl.killed")) if field_text(e, "signal").strip().startswith("Killed")
    ]
    if not events and not loader:
        return None
    told = bool(events)
    ours = bool(loader) or any(_is_own_process(facts, event) for event in events)
    return _found(
        facts,
        [*events, *loader],
        Grade.KERNEL,
        tell("killed" if told else "worker-killed"),
        _use_less(facts),
        whole=told and ours,
    )


def _use_less(facts: Facts) -> str:
    """Engines that serve have no loaders of batches: what they keep on the host is theirs to say."""
    return "reduce-host-memory-of-engine" if is_of_engines(facts) else "reduce-host-memory"


def _is_own_process(facts: Facts, event: LogEvent) -> bool:
    """The killed process is one of the job's, as its pid or the scheduler says."""
    pids = {known.pid for known in facts.ranks.values()} | {e.pid for e in facts.exits}
    if event.kind.startswith("k."):
        return event.values.get("pid") in pids - {None}
    return True


def _shared_memory(facts: Facts) -> DetectorResult | None:
    bus = [e for e in first_attempt(facts.events_of("dl.killed")) if "Bus error" in field_text(e, "signal")]
    events = [*events_stating(facts, "shm"), *bus]
    if not events:
        return None
    trouble = segment_failure(events)
    if trouble is not SegmentFailure.NO_ROOM:
        return _not_opened(facts, events, trouble)
    told = _found(facts, events, Grade.STATED, tell("shm-small"), "enlarge-shared-memory")
    parts = dict(told.parts)
    if not parts["ranks"] and any(event.kind.startswith("dl.") for event in events):
        parts["ranks"] = _lost_a_loader(facts)
    without_p2p = logged_settings(facts).get("NCCL_P2P_DISABLE")
    if without_p2p is not None and without_p2p.value == "1":
        # The workaround for one fault leads into the next: the verdict says both.
        parts["because"] = (tell("p2p-through-shm"), *parts["because"])
        parts["evidence"] = (*parts["evidence"], without_p2p.evidence)
        led_by = Consequence(Cause.P2P_BROKEN, parts["ranks"], 1, tell("p2p-was-off"))
        parts["consequences"] = (*parts["consequences"], led_by)
    return replace(told, parts=parts)


def _not_opened(facts: Facts, events: list[LogEvent], trouble: SegmentFailure) -> Signal | None:
    """There was room: a larger /dev/shm would not help."""
    if trouble is SegmentFailure.NO_NAME:
        return None  # a defect of NCCL, not a lack of memory
    if trouble is SegmentFailure.NO_RIGHT:
        return _found(facts, events, Grade.STATED, tell("shm-forbidden"), "fix-dev-shm-permissions", whole=False)
    return _found(facts, events, Grade.BASE_RATE, tell("shm-file-missing"), "share-dev-shm")


def _lost_a_loader(facts: Facts) -> tuple[int, ...]:
    """Ranks whose own exception says that a worker of their loader ended: the line about the worker names nobody."""
    lost = {t.rank for t in facts.tracebacks if t.rank is not None and "DataLoader worker" in t.message}
    return tuple(sorted(lost))


def _locked_memory(facts: Facts) -> DetectorResult | None:
    events = [
        e
        for e in first_attempt(facts.events_of("n.ibcall"))
        if "reg_mr" in field_text(e, "call")
        or "create_qp" in field_text(e, "call")
        or "create_cq" in field_text(e, "call")
    ]
    events = [e for e in events if _NO_MEMORY.search(e.text) or e.values.get("errno") == 12]
    if not events:
        return None
    return _found(facts, events, Grade.STATED, tell("locked-memory"), "raise-memlock-limit", whole=False)


def _open_files(facts: Facts) -> DetectorResult | None:
    events = list(events_stating(facts, "limits"))
    if not events:
        return None
    return _found(facts, events, Grade.STATED, tell("open-files"), "raise-open-files-limit", whole=False)


def _exception(facts: Facts) -> DetectorResult | None:
    crashes = [c for c in primary_crashes(facts) if c.is_host_memory]
    if not crashes:
        return None
    ranks = tuple(sorted({c.rank for c in crashes if c.rank is not None}))
    return make_signal(
        Grade.STATED,
        tell("no-memory", message=shortened(crashes[0].message, 100)),
        whole=bool(ranks),
        ranks=ranks,
        where=crashes[0].where,
        because=(tell("first-failure"),),
        evidence=tuple(c.evidence for c in crashes[:3]),
        remedies=(remedy(_use_less(facts)),),
        consequences=timeouts_after(facts, CAUSE, ranks),
    )


def _silent_kill(facts: Facts) -> DetectorResult | None:
    """SIGKILL or SIGBUS without a word of the kernel: memory is the usual sender, not the only one."""
    crashes = [c for c in primary_crashes(facts) if c.signal in (SIGKILL, SIGBUS)]
    senders = [event for event in events_stating(facts, "killed", "ended-by-monitor") if event.kind not in _BY_LAUNCHER]
    if not crashes or senders or events_stating(facts, "host-memory", "shm"):
        return None
    ranks = tuple(sorted({c.rank for c in crashes if c.rank is not None}))
    return make_signal(
        Grade.BASE_RATE,
        tell("full-shm" if all(c.signal == SIGBUS for c in crashes) else "full-memory"),
        ranks=ranks,
        because=(tell("no-kernel-log"),),
        evidence=tuple(c.evidence for c in crashes[:3]),
        remedies=(remedy(_use_less(facts)),),
    )


def _found(
    facts: Facts, events: list[LogEvent], grade: Grade, summary: Text, mended_by: str, *, whole: bool = True
) -> Signal:
    ranks = ranks_of_events(events) or _ranks_by_pid(facts, events) or _ranks_of_failed_calls(facts, events)
    return log_signal(
        grade,
        summary,
        events,
        mended_by,
        whole=whole,
        ranks=ranks,
        nodes=tuple(dict.fromkeys((*hosts_of_events(events), *hosts_of(facts, ranks)))),
        because=(tell("line-says-so"),),
        consequences=timeouts_after(facts, CAUSE, ranks),
    )


def _ranks_by_pid(facts: Facts, events: list[LogEvent]) -> tuple[int, ...]:
    """The kernel names a process, which may be a rank's."""
    pids = {event.values.get("pid") for event in events} - {None}
    ended = {e.rank for e in facts.exits if e.rank is not None and e.pid in pids}
    return tuple(sorted(ended | {rank for rank, known in facts.ranks.items() if known.pid in pids}))


def _ranks_of_failed_calls(facts: Facts, events: list[LogEvent]) -> tuple[int, ...]:
    """NCCL's warning names no rank; the rank whose exception says that a system call inside NCCL failed is it."""
    if not all(event.kind.startswith("n.") for event in events):
        return ()
    failed = ranks_of_events(
        e for e in first_attempt(facts.events_of("ncclerr", "py.error")) if _SYSTEM_ERROR in e.text
    )
    return ranks_if_few(failed)
