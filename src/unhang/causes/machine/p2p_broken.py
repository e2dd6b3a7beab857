"""p2p-broken: GPUs cannot exchange data directly although the driver says they can: ACS, IOMMU, virtual machines, NVLS.

What happens: NCCL chooses P2P (or GPUDirect RDMA, or NVSwitch multicast), and the first transfer hangs or is refused.
Why it hangs: requests between GPUs go through the CPU's root complex and get lost there; kernels spin at 100 %.
Example: two PCIe cards at PHB distance, `via P2P/direct`, `ACSCtl: … ReqRedir+`; all-reduce never returns.
Fix: switch ACS off on the bridges (or set the IOMMU to passthrough); NCCL_P2P_DISABLE=1 as a test; NCCL_NVLS_ENABLE=0.
Certain when: never from logs alone; run the test that the remedy names.
Possible when: consumer cards exchange data over P2P, and nothing ever finishes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from unhang.causes.detector import DetectorResult
from unhang.causes.wording.signals import log_signal, ranks_if_few, transport_suspect
from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import field_text, first_attempt, ranks_of_events
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.ambiguous_errors import refused_peer_memory
from unhang.facts.machine.transport_errors import MEMORY_STATUS
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade
from unhang.knowledge.thresholds import whole_threshold
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

CAUSE = Cause.P2P_BROKEN
tell = Sentences("causes/p2p-broken.toml")
FIRST_POSITIONS = whole_threshold("p2p_broken.first_positions")
_NVLS = re.compile(r"nvls\.cc|NVLS|Multicast", re.IGNORECASE)
_CONSUMER = re.compile(r"GeForce|RTX \d{4}|TITAN|GTX")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """NVSwitch multicast, GPUDirect RDMA, then P2P over PCIe."""
    looks = (_multicast, _p2p_refused, _gpudirect, _silent_p2p)
    yield from (answer for look in looks if (answer := look(facts)) is not None)
    yield from transport_suspect(facts, "disable-p2p", "P2P")


def _multicast(facts: Facts) -> DetectorResult | None:
    events = [
        e
        for e in first_attempt(facts.events_of("n.nvls", "n.cuda", "n.p2poff", "k.fabric"))
        if e.kind in ("n.nvls", "n.p2poff", "k.fabric") or _NVLS.search(e.text.split("NCCL WARN")[0])
    ]
    if not events:
        return None
    return _found(
        events,
        tell("multicast-failed", error=events[0].text.strip()[-100:]),
        (tell("fabric-manager"),),
        "disable-nvls",
    )


def _p2p_refused(facts: Facts) -> DetectorResult | None:
    events = refused_peer_memory(facts)
    if not events:
        return None
    return _found(
        events,
        tell("not-mapped", error=field_text(events[0], "error")),
        (tell("opens-peer-memory"),),
        "disable-p2p",
    )


def _gpudirect(facts: Facts) -> DetectorResult | None:
    """The card may not read or write the GPU's memory."""
    events = [e for e in first_attempt(facts.events_of("n.ibwc")) if e.values.get("status") in MEMORY_STATUS]
    if not events:
        return None
    if _acs_is_off(facts):
        # The usual cause is shown not to be there; what else it may be is not known.
        return None
    return _found(
        events,
        tell("access-refused", status=field_text(events[0], "status")),
        (tell("speaks-of-memory"),),
        "test-without-gpudirect",
    )


def _silent_p2p(facts: Facts) -> DetectorResult | None:
    """Everything was set up over P2P, nothing complains, nothing moves."""
    channels = [e for e in facts.events_of("n.channel") if field_text(e, "path").startswith("P2P")]
    if not channels or not _nothing_else(facts):
        return None
    acs = [e for e in facts.events_of("look.acs") if field_text(e, "redirect") == "+"]
    consumer = [e for e in facts.events_of("look.gpuname", "look.gpumodel") if _CONSUMER.search(field_text(e, "gpu"))]
    busy = [e for e in facts.events_of("look.gpuuse") if field_text(e, "percent") in ("99", "100")]
    if acs:
        return _found(
            [*acs[:2], channels[0]],
            tell("redirected"),
            (tell("requests-lost"),),
            "disable-acs",
            "disable-p2p",
            grade=Grade.ORDER,
            whole=True,
        )
    stuck = logged_waits(facts)
    tested = any("Access Peer" in line.text for log in facts.logs for line in log.last_lines)
    if consumer and (busy or stuck is not None or tested):
        return _found(
            [consumer[0], *busy[:1], channels[0]],
            tell("unsupported"),
            (tell("spinning" if busy else "first-never-end"), tell("settles-it")),
            "disable-p2p",
            grade=Grade.ORDER,
            whole=stuck is not None and bool(facts.all_joined_stalls),
        )
    return None


def _nothing_else(facts: Facts) -> bool:
    """No step, no error, no traceback: the stall is right behind the set-up."""
    if facts.tracebacks or facts.events_of("n.ibwc", "n.ofi", "n.sockerr", "n.cuda", "oom", "k.xid"):
        return False
    logged = logged_waits(facts)
    if logged is not None and any(p is not None and p > FIRST_POSITIONS for p in logged.positions):
        return False
    return not any(p.last_step > p.first_step for log in facts.logs for p in log.progress)


def _acs_is_off(facts: Facts) -> bool:
    looks = facts.events_of("look.acs")
    return bool(looks) and all(field_text(e, "redirect") == "-" for e in looks)


def _found(
    events: Sequence[LogEvent],
    summary: Text,
    because: tuple[Text, ...],
    *remedies: str,
    grade: Grade = Grade.STATED,
    whole: bool = False,
) -> DetectorResult:
    """A program that names the failing call does not name what made it fail: the remedy's test does."""
    ranks = ranks_if_few(ranks_of_events(events))
    return log_signal(grade, summary, events, *remedies, ranks=ranks, whole=whole, because=because)
