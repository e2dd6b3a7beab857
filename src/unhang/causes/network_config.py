"""network-config: the ranks cannot reach each other the way they were told to: interface, address, firewall, GID, MTU.

What happens: NCCL or Gloo binds to the wrong interface, gets a loopback address, or a firewall or security group stands
between the nodes; InfiniBand is there and its ports are not joined; a plugin or its settings do not fit the fabric.
Why it hangs: set-up, or the first collective between nodes, waits for a partner that cannot answer.
Example: `connect [127.0.1.1]:18907: Connection refused` because /etc/hosts maps the host's name to loopback.
Fix: name the interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), open the ports, choose the right GID and HCA.
Certain when: the address or interface in the line cannot work between nodes.
Possible when: it failed at first use and nothing else tells why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from unhang.evidence.items import LogEvent
from unhang.facts.fabric import first_use_stall, ports_down
from unhang.facts.model import Facts
from unhang.facts.said import first_attempt, hosts_in, quotes, ranks_in, value_of
from unhang.facts.settings import overruled, settings_of
from unhang.facts.stages import Stage
from unhang.facts.transport_lines import RETRY_EXCEEDED, transport_trouble
from unhang.findings import Cause, Certainty, Evidence, Remedy, Text, say
from unhang.rules.interface_choice import name_the_interface, search_the_setting
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.NETWORK_CONFIG
_LOOPBACK = re.compile(r"^\[?(?:127\.|localhost|::1)")


def check(facts: Facts) -> Iterator[Answer]:
    """The most telling complaint about addresses, ports and first use."""
    for look in (_no_interface, _gloo, _loopback_socket, _port_down, _first_use, _fabric):
        answer = look(facts)
        if answer is not None:
            yield answer
            return


def _no_interface(facts: Facts) -> Answer | None:
    events = first_attempt(facts.events_of("n.noif", "gloo.noif"))
    if not events:
        return None
    name = "NCCL_SOCKET_IFNAME" if events[0].kind == "n.noif" else "GLOO_SOCKET_IFNAME"
    setting = settings_of(facts).get(name)
    extra = (setting.evidence,) if setting is not None else ()
    return _found(
        events,
        Certainty.CERTAIN,
        say("no network interface of this machine fits {name}={value}", name=name, value=setting.value)
        if setting is not None
        else say("no usable network interface was found (see {name})", name=name),
        (say("every rank that prints this leaves before the first collective"),),
        (name_the_interface(),),
        extra,
    )


def _gloo(facts: Facts) -> Answer | None:
    events = first_attempt(facts.events_of("gloo.refused", "gloo.mesh"))
    if not events:
        return None
    loopback = next((e for e in events if _LOOPBACK.match(value_of(e, "peer"))), None)
    ranks = tuple(sorted({r for e in events if isinstance(r := e.values.get("rank"), int)})) or ranks_in(events)
    if loopback is not None:
        return _found(
            events,
            Certainty.CERTAIN if facts.world_size is None or facts.world_size > 1 else Certainty.LIKELY,
            say("a rank was told to connect to {peer}: an address of its own machine", peer=value_of(loopback, "peer")),
            (say("the partner's host name resolves to loopback there, and it published that address"),),
            (_hosts_file(),),
            ranks=ranks,
        )
    return _found(
        events,
        Certainty.LIKELY,
        say("Gloo could not connect the ranks with each other"),
        (say("it failed while connecting, before any collective: address, interface or firewall"),),
        (name_the_interface(), search_the_setting(), _hosts_file()),
        ranks=ranks,
    )


def _loopback_socket(facts: Facts) -> Answer | None:
    """NCCL chose the loopback interface on one machine, and another machine could not reach it."""
    chosen = [e for e in facts.events_of("n.sockif", "n.boot") if _LOOPBACK.match(value_of(e, "address"))]
    others = [e for e in facts.events_of("n.sockif", "n.boot") if not _LOOPBACK.match(value_of(e, "address"))]
    failed = first_attempt(facts.events_of("n.conn", "n.sock", "n.sockerr"))
    if not chosen or not failed or not others:
        return None
    return _found(
        (chosen[0], *failed),
        Certainty.LIKELY,
        say("NCCL took the loopback interface on one machine, and the others cannot reach it"),
        (say("{address} is only reachable from the machine itself", address=value_of(chosen[0], "address")),),
        (name_the_interface(),),
    )


def _port_down(facts: Facts) -> Answer | None:
    down = ports_down(facts)
    trouble = transport_trouble(facts)
    if not down or trouble is None or trouble.echo:
        return None
    return _found(
        trouble.events,
        Certainty.LIKELY,
        say("port {port} is down or disabled, and transfers are not answered", port=", ".join(p.name for p in down)),
        (say("a library that uses all cards it finds will use this one too"),),
        (_choose_hca(),),
        tuple(p.evidence for p in down),
    )


def _first_use(facts: Facts) -> Answer | None:
    trouble = transport_trouble(facts)
    if trouble is None or trouble.echo or trouble.few_of_many or trouble.one_peer is not None:
        return None
    if (trouble.stage is Stage.RUNNING and not trouble.connecting) or any(
        e.kind in ("n.ibasync", "k.mlx5", "n.ibresil") for e in trouble.events
    ):
        return None
    first = trouble.stage is Stage.FIRST_USE or (trouble.stage is Stage.UNKNOWN and trouble.connecting)
    overrides = overruled(facts)
    because = [
        say("it failed at first use, before anything had worked over it")
        if first
        else say("nothing shows that the network had worked before")
    ]
    because.extend(
        say(
            "NCCL uses {name}={theirs}, not the shell's {yours}, which did not reach the rank (/etc/nccl.conf?)",
            name=mine.name,
            theirs=library.value,
            yours=mine.value,
        )
        for mine, library in overrides[:2]
    )
    return _found(
        trouble.events,
        Certainty.LIKELY if first else Certainty.POSSIBLE,
        _first_use_summary(trouble.events[0]),
        tuple(because),
        (_choose_hca() if _is_verbs(trouble.events[0]) else name_the_interface(),),
        tuple(library.evidence for _, library in overrides[:2]),
    )


def _is_verbs(event: LogEvent) -> bool:
    return event.kind in ("n.ibwc", "n.ibcall", "tp.retry")


def _first_use_summary(event: LogEvent) -> Text:
    if event.kind == "n.ibwc" and event.values.get("status") == RETRY_EXCEEDED:
        return say("the peer did not answer the first transfers over InfiniBand or RoCE (error 12)")
    if event.kind == "n.ibcall":
        return say("the network card could not set up a connection: {error}", error=_verbs_error(event))
    if event.kind == "n.ofi":
        return say("the first transfers over libfabric failed: {error}", error=value_of(event, "error")[:100])
    return say("ranks could not connect with each other: {error}", error=event.text.strip()[-100:].strip())


def _verbs_error(event: LogEvent) -> str:
    """What the verbs call said; the device and GIDs behind it stand in the evidence."""
    return value_of(event, "error").partition(", on dev")[0].strip()[:100] or value_of(event, "call")


def _fabric(facts: Facts) -> Answer | None:
    """Communicators were made over an external plugin and no collective between nodes ever finished."""
    stall = first_use_stall(facts)
    if stall is None:
        return None
    return _found(
        (),
        Certainty.LIKELY,
        say("the first collectives between nodes never finish over {network}", network=stall.network),
        (
            say(
                "communicators were set up, and {ranks:who} {ranks:waits|wait} in their first collectives",
                ranks=stall.ranks,
            ),
            say("no rank is missing from them: it is the transport and its settings, not the program"),
        ),
        (_plugin_settings(),),
        stall.evidence,
    )


def _found(
    events: tuple[LogEvent, ...],
    certainty: Certainty,
    summary: Text,
    because: tuple[Text, ...],
    remedies: tuple[Remedy, ...],
    extra: tuple[Evidence, ...] = (),
    ranks: tuple[int, ...] | None = None,
) -> Answer:
    spoke = ranks_in(events)
    return finding(
        CAUSE,
        certainty,
        summary,
        ranks=ranks if ranks is not None else spoke if len(spoke) <= 2 else (),
        nodes=hosts_in(events),
        because=because,
        evidence=(*quotes(events), *extra[:3]),
        remedies=remedies,
    )


def _hosts_file() -> Remedy:
    return remedy("let-every-host-name-resolve-to-an")


def _choose_hca() -> Remedy:
    return remedy("use-only-ports-that-reach-the-other")


def _plugin_settings() -> Remedy:
    return remedy("run-with-the-fabric-s-recommended-settings")
