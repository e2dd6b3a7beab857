"""network-config: the ranks cannot reach each other as configured: interface, address, firewall, GID, MTU.

What happens: NCCL or Gloo binds to the wrong interface or gets a loopback address; a firewall or security group
separates the nodes; InfiniBand is there, but its ports are not joined; or a plugin or its settings do not fit the
fabric.
Why it hangs: set-up, or the first collective between nodes, waits for a partner that cannot answer.
Example: `connect [127.0.1.1]:18907: Connection refused`, because /etc/hosts maps the host name to loopback.
Fix: name the interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), open the ports, choose the right GID and HCA.
Certain when: the address or interface in the line cannot work between nodes.
Likely when: it failed at first use; or a sampled rank's kernel waits for the first answer of another rank (a rank that
was just stopped does not answer either).
Possible when: nothing shows that the network had worked before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import hosts_of, place_of, quote_rank
from unhang.causes.wording.signals import log_signal, ranks_if_few
from unhang.evidence.items import LogEvent
from unhang.facts.logs.event_timing import EventTiming
from unhang.facts.logs.log_statements import field_text, first_attempt, ranks_of_events
from unhang.facts.logs.logged_values import logged_settings, overruled_settings
from unhang.facts.machine.transport_errors import RETRY_EXCEEDED, first_use_stall, ports_down, transport_errors
from unhang.facts.model import Facts, RankFacts
from unhang.facts.waiting.progress_from_stacks import in_collective
from unhang.findings import Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text, shortened

CAUSE = Cause.NETWORK_CONFIG
tell = Sentences("causes/network-config.toml")
_MAKES_A_GROUP, _MAKES_THE_STORE = "_new_process_group_helper", "_create_c10d_store"
_LOOPBACK = re.compile(r"^\[?(?:127\.|localhost|::1)")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Complaints about addresses, ports and first use, and connections that wait for their first answer."""
    looks = (_no_interface, _gloo, _loopback_socket, _port_down, _first_use, _fabric, _unanswered)
    yield from (answer for look in looks if (answer := look(facts)) is not None)


_SETTING_OF = {"n.noif": "NCCL_SOCKET_IFNAME", "gloo.noif": "GLOO_SOCKET_IFNAME", "n.nonet": "NCCL_NET"}


def _no_interface(facts: Facts) -> DetectorResult | None:
    events = first_attempt(facts.events_of(*_SETTING_OF))
    if not events:
        return None
    name = _SETTING_OF[events[0].kind]
    network = events[0].kind == "n.nonet"
    setting = logged_settings(facts).get(name)
    return _found(
        events,
        Grade.STATED,
        tell("no-network" if network else "no-interface-fits", name=name, value=setting.value)
        if setting is not None
        else tell("no-network-of" if network else "no-interface", name=name),
        because=(tell("leaves-before"),),
        remedies=(remedy("unset-nccl-net" if network else "set-network-interface"),),
        more_evidence=(setting.evidence,) if setting is not None else (),
    )


def _gloo(facts: Facts) -> DetectorResult | None:
    events = first_attempt(facts.events_of("gloo.refused", "gloo.mesh"))
    if not events:
        return None
    loopback = next((e for e in events if _LOOPBACK.match(field_text(e, "peer"))), None)
    ranks = tuple(sorted({r for e in events if isinstance(r := e.values.get("rank"), int)})) or ranks_of_events(events)
    if loopback is not None:
        return _found(
            events,
            Grade.STATED,
            tell("loopback-told", peer=field_text(loopback, "peer")),
            because=(tell("loopback-published"),),
            remedies=(remedy("fix-host-name-resolution"),),
            ranks=ranks,
            whole=facts.world_size is None or facts.world_size > 1,
        )
    return _found(
        events,
        Grade.STATED,
        tell("gloo-not-connected"),
        because=(tell("while-connecting"),),
        remedies=(
            remedy("set-network-interface"),
            remedy("bisect-network-setting"),
            remedy("fix-host-name-resolution"),
        ),
        ranks=ranks,
        whole=False,
    )


def _loopback_socket(facts: Facts) -> DetectorResult | None:
    """NCCL chose the loopback interface on one machine, and another machine could not reach it."""
    chosen = [e for e in facts.events_of("n.sockif", "n.boot") if _LOOPBACK.match(field_text(e, "address"))]
    others = [e for e in facts.events_of("n.sockif", "n.boot") if not _LOOPBACK.match(field_text(e, "address"))]
    failed = first_attempt(facts.events_of("n.conn", "n.sock", "n.sockerr"))
    if not chosen or not failed or not others:
        return None
    return _found(
        (chosen[0], *failed),
        Grade.STATED,
        tell("loopback-taken"),
        because=(tell("only-from-itself", address=field_text(chosen[0], "address")),),
        remedies=(remedy("set-network-interface"),),
        whole=False,
    )


def _port_down(facts: Facts) -> DetectorResult | None:
    down = ports_down(facts)
    trouble = transport_errors(facts)
    if not down or trouble is None or trouble.partner_ended:
        return None
    return _found(
        trouble.events,
        Grade.KERNEL,
        tell("port-down", port=", ".join(p.name for p in down)),
        because=(tell("will-use-it"),),
        remedies=(remedy("use-active-ports"),),
        more_evidence=tuple(p.evidence for p in down[:3]),
        whole=False,
    )


def _first_use(facts: Facts) -> DetectorResult | None:
    trouble = transport_errors(facts)
    if trouble is None or trouble.partner_ended or trouble.few_of_many or trouble.one_peer is not None:
        return None
    if (trouble.stage is EventTiming.RUNNING and not trouble.connecting) or any(
        e.kind in ("n.ibasync", "k.mlx5", "n.ibresil") for e in trouble.events
    ):
        return None
    first = trouble.stage is EventTiming.FIRST_USE or (trouble.stage is EventTiming.UNKNOWN and trouble.connecting)
    overrides = overruled_settings(facts)
    because = [tell("at-first-use" if first else "had-worked-unknown")]
    because.extend(
        tell("other-value", name=mine.name, theirs=library.value, yours=mine.value) for mine, library in overrides[:2]
    )
    verbs = trouble.events[0].kind in ("n.ibwc", "n.ibcall", "tp.retry")
    return _found(
        trouble.events,
        Grade.ORDER,
        _first_use_summary(trouble.events[0]),
        because=tuple(because),
        remedies=(remedy("use-active-ports" if verbs else "set-network-interface"),),
        more_evidence=tuple(library.evidence for _, library in overrides[:2]),
        whole=first,
    )


def _first_use_summary(event: LogEvent) -> Text:
    if event.kind == "n.ibwc" and event.values.get("status") == RETRY_EXCEEDED:
        return tell("first-transfers-ib")
    if event.kind == "n.ibcall":
        return tell("card-not-set-up", error=_verbs_error(event))
    if event.kind == "n.ofi":
        return tell("first-transfers-fabric", error=shortened(field_text(event, "error"), 100))
    return tell("not-connected", error=event.text.strip()[-100:].strip())


def _verbs_error(event: LogEvent) -> str:
    """What the verbs call said; the device and GIDs behind it stand in the evidence."""
    return field_text(event, "error").partition(", on dev")[0].strip() or field_text(event, "call")


def _fabric(facts: Facts) -> DetectorResult | None:
    """Communicators were made over an external plugin and no collective between nodes ever finished."""
    stall = first_use_stall(facts)
    if stall is None:
        return None
    return _found(
        (),
        Grade.ORDER,
        tell("first-never-finish", network=stall.network),
        because=(tell("in-first-collectives", ranks=stall.ranks), tell("nobody-missing")),
        remedies=(remedy("use-recommended-fabric-settings"),),
        more_evidence=stall.evidence[:3],
    )


def _found(events: Sequence[LogEvent], grade: Grade, summary: Text, **parts: Any) -> DetectorResult:
    return log_signal(grade, summary, events, **{"ranks": ranks_if_few(ranks_of_events(events)), **parts})


def _unanswered(facts: Facts) -> DetectorResult | None:
    """In a sample of live ranks: all that try to connect to another one, and whose kernel waits for the first
    answer."""
    ranks = tuple(rank for rank, known in sorted(facts.ranks.items()) if known.alive and _connects(known))
    if not ranks:
        return None
    peers = sorted({peer for rank in ranks for peer in facts.ranks[rank].process.unanswered})
    return make_signal(
        Grade.KERNEL,
        tell("tries-to-connect", ranks=ranks, peer=peers[0]),
        whole=False,  # a rank that was just stopped does not answer either
        nodes=hosts_of(facts, ranks),
        phase=Phase.INIT,
        where=place_of(facts, ranks[0]),
        because=(
            tell("address-leads-nowhere"),
            *((tell("no-answer-from", peers=", ".join(peers[:4])),) if len(peers) > 1 else ()),
        ),
        evidence=tuple(quote for rank in ranks[:3] for quote in quote_rank(facts.ranks[rank])),
        remedies=(remedy("bisect-network-setting"), remedy("set-network-interface")),
    )


def _connects(known: RankFacts) -> bool:
    """To another rank, not to the store: it makes a group, or stands in a collective that makes its connections."""
    if not known.process.unanswered or known.stack is None:
        return False
    functions = {frame.function for thread in known.stack.threads for frame in thread.frames}
    if _MAKES_THE_STORE in functions:
        return False
    return _MAKES_A_GROUP in functions or in_collective(known.activity)
