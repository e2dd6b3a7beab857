"""gpu-hardware: a GPU, its memory or its links failed: Xid, ECC, NVLink, fell off the bus.

What happens: the driver reports an event on one card, or CUDA calls on it fail with an error that no program can cause.
Why it hangs: that card's rank dies, or its kernels never end; the other ranks wait in the next collective.
Example: `Xid 79, GPU has fallen off the bus` on one node; ten minutes later every other rank times out.
Fix: take the node out, reset or replace the card; the program is not at fault.
Certain when: the driver names a hardware event, or CUDA reports an uncorrectable ECC error.
Possible when: CUDA reports an unknown error, and nothing else says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import group_label, hosts_of, quote_stall
from unhang.causes.wording.signals import log_signal, timeouts_after, transport_suspect
from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import (
    events_stating,
    field_text,
    hosts_of_events,
    quote_events,
    ranks_of_events,
    short_message,
)
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.ambiguous_errors import MAY_BE_A_KERNEL, unexplained_device_errors
from unhang.facts.machine.xids import (
    KIND,
    is_of_another_job,
    may_be_of_another_job,
    names_stranger,
    ranks_on_card,
    row_of_xid,
)
from unhang.facts.model import Facts, Stall
from unhang.facts.waiting.stalls import is_device_behind
from unhang.findings import Cause, Grade, Severity
from unhang.knowledge.remedies import remedy
from unhang.knowledge.thresholds import threshold
from unhang.knowledge.words import Sentences
from unhang.sentences import Text, first_names, shortened

CAUSE = Cause.GPU_HARDWARE
tell = Sentences("causes/gpu-hardware.toml")
# Multicast and missing P2P are configuration as often as hardware: p2p-broken judges them.
_ELSEWHERE = {"n.nvls", "n.p2poff", "k.fabric"}
OLD_S = threshold("gpu_hardware.old_s")
NODES_SHOWN = 2
_OF_THE_MACHINE = ("k.busoff", "k.busoff_load", "k.sxid", "k.aer")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Events of the driver first, then CUDA's own words, then an unknown error that nothing explains; beside them what
    is only possible: cards that carry what all joined, or never ran what was queued."""
    yield from transport_suspect(facts, "check-gpu-health")
    yield from (
        _never_run(facts, stall) for stall in facts.stalls if is_device_behind(facts.groups, facts.ranks, stall)
    )
    faults = [e for e in events_stating(facts, "gpu-fault", "pcie") if _is_fault(e) and not is_of_another_job(facts, e)]
    if faults:
        yield _found(facts, faults, Grade.KERNEL, whole=not _doubtful(facts, faults))
        return
    vague = unexplained_device_errors(facts)
    if vague:
        grade = Grade.BASE_RATE if any(e.kind in MAY_BE_A_KERNEL for e in vague) else Grade.STATED
        yield _found(facts, vague, grade, whole=False)
        return
    yield from _noted(facts)


def _never_run(facts: Facts, stall: Stall) -> DetectorResult:
    return make_signal(
        Grade.BASE_RATE,
        tell("never-run", ranks=stall.laggards),
        ranks=stall.laggards,
        group=group_label(facts, stall.group),
        because=(tell("queued-unfinished"),),
        evidence=quote_stall(facts, stall),
        remedies=(remedy("check-kernel-nccl-logs"),),
    )


def _noted(facts: Facts) -> Iterator[DetectorResult]:
    """Codes that stop nothing by themselves are a note, and so is what befell another job's process."""
    told = events_stating(facts, "gpu-fault")
    strangers = [e for e in told if names_stranger(facts, e) and ranks_on_card(facts, e) != ()]
    if strangers:
        first = {name: field_text(strangers[0], name) for name in ("pid", "process", "xid", "bus")}
        yield make_signal(
            Grade.BASE_RATE,
            tell("stranger", **first),
            severity=Severity.NOTE,
            because=(tell("no-rank-of-ours" if facts.machines else "no-rank-as-logged"),),
            evidence=quote_events(strangers),
        )
    events = [e for e in told if not is_of_another_job(facts, e)]
    events = [e for e in events if (row := row_of_xid(e)) is not None and row.kind == "note"]
    if not events:
        return
    row = row_of_xid(events[0])
    assert row is not None
    told_of = tell("xid-noted", code=row.code, meaning=row.meaning)
    mended_by = "report-gpu-error"
    yield log_signal(Grade.BASE_RATE, told_of, events, mended_by, severity=Severity.NOTE, ranks=())


def _doubtful(facts: Facts, faults: Sequence[LogEvent]) -> bool:
    """A fabric manager that does not run is fixed without hardware; some codes are effects; old ones another job's."""
    return all(_is_doubtful(facts, e) for e in faults) or _long_before(facts, faults)


def _is_doubtful(facts: Facts, event: LogEvent) -> bool:
    row = row_of_xid(event)
    an_effect = event.kind in ("cuda.noninit", "k.busoff_load") or (row is not None and row.doubt)
    return an_effect or may_be_of_another_job(facts, event)


def _long_before(facts: Facts, faults: Sequence[LogEvent]) -> bool:
    """All of it happened more than an hour before the ranks began to wait: it may be another job's."""
    logged = logged_waits(facts)
    stalled = min((m.stalled_since_s for m in facts.manifests if m.stalled_since_s is not None), default=None)
    began = logged.began_s if logged is not None else stalled
    times = [e.time_s for e in faults]
    return began is not None and all(t is not None and t < began - OLD_S for t in times)


def _is_fault(event: LogEvent) -> bool:
    if event.kind in _ELSEWHERE:
        return False
    if event.kind == "k.xid":
        row = row_of_xid(event)
        return row is not None and row.kind in ("gpu", "link")
    if event.kind == "k.aer":
        return "Corrected" not in field_text(event, "severity")
    if event.kind == "k.sxid":
        return "Non-fatal" not in event.text
    return True


def _words(event: LogEvent) -> str:
    return shortened(field_text(event, "error").strip() or event.text.strip(), 80)


def _summary(faults: Sequence[LogEvent], ranks: tuple[int, ...], nodes: tuple[str, ...]) -> Text:
    first = min(faults, key=_severity)
    named = first_names(nodes, NODES_SHOWN)
    whose = tell("of-ranks", ranks=ranks) if ranks else tell("of-node", nodes=named) if nodes else tell("of-nobody")
    row = row_of_xid(first)
    if row is not None:
        return tell("xid", code=row.code, whose=whose, bus=field_text(first, "bus"), meaning=row.meaning)
    if first.kind in ("cuda.ecc", "cuda.nvlink", "cuda.lost", "cuda.noninit"):
        return tell("cuda-fault", whose=whose, error=short_message(first))
    if first.kind in _OF_THE_MACHINE:
        return tell("machine-fault", machine=named or tell("the-machine"), error=short_message(first))
    return tell("no-progress" if first.kind == "hip.hang" else "device-error", whose=whose, error=_words(first))


def _severity(event: LogEvent) -> int:
    order = ("k.xid", "k.busoff", "k.sxid", "cuda.ecc", "cuda.lost", "cuda.nvlink", "cuda.noninit")
    return order.index(event.kind) if event.kind in order else len(order)


def _found(facts: Facts, faults: Sequence[LogEvent], grade: Grade, *, whole: bool) -> DetectorResult:
    on_cards = sorted({rank for e in faults if e.kind == KIND for rank in ranks_on_card(facts, e) or ()})
    ranks = ranks_of_events(faults) or _ranks_of_processes(facts, faults) or tuple(on_cards)
    nodes = tuple(dict.fromkeys((*hosts_of_events(faults), *hosts_of(facts, ranks))))
    return log_signal(
        grade,
        _summary(faults, ranks, nodes),
        faults,
        "drain-node",
        whole=whole,
        ranks=ranks,
        nodes=nodes,
        because=(tell("no-program-explains"),),
        consequences=timeouts_after(facts, CAUSE, ranks),
    )


def _ranks_of_processes(facts: Facts, faults: Sequence[LogEvent]) -> tuple[int, ...]:
    pids = {e.values["pid"] for e in facts.events_of("k.xid") if isinstance(e.values.get("pid"), int)}
    pids |= {e.values["pid"] for e in faults if isinstance(e.values.get("pid"), int)}
    return tuple(sorted(r for r, known in facts.ranks.items() if known.pid in pids and known.pid is not None))
