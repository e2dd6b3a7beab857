"""rendezvous: the ranks did not find each other at start: address, port, world size, store.

What happens: the port is taken; the host name leads nowhere, or to loopback; or fewer or more processes come than
announced.
Why it hangs: every rank waits at the store for the last one, which never comes.
Example: `Timed out after 601 seconds waiting for clients. 3/4 clients joined`; `Address already in use` on rank 0.
Fix: one free port, a MASTER_ADDR that every node reaches, the same --nnodes and --nproc-per-node everywhere.
Certain when: the store says which of these it is.
Possible when: only a connection attempt failed; that is harmless while rank 0 is still starting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import hosts_of, place_of
from unhang.causes.wording.signals import log_signal
from unhang.evidence.items import LogEvent
from unhang.facts.endings.failure_kinds import is_store_port
from unhang.facts.logs.log_statements import field_text, first_attempt
from unhang.facts.model import Facts, RankFacts
from unhang.facts.waiting.progress_from_stacks import GROUP_CREATION_CALLS, is_creating_group
from unhang.findings import Cause, Grade, Phase, Remedy
from unhang.knowledge import numbers
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences

CAUSE = Cause.RENDEZVOUS
tell = Sentences("causes/rendezvous.toml")
LOOPBACK = re.compile(r"^(127\.|localhost$|::1$)")
_KEY_NUMBER = re.compile(r":(\d+)$")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Port taken, address wrong, ranks missing or too many: whatever the store says first."""
    for answer in (_port_taken(facts), _unreachable(facts), _too_many(facts), _too_few(facts)):
        if answer is not None:
            yield answer
            return


def _port_taken(facts: Facts) -> DetectorResult | None:
    events = first_attempt(facts.events_of("store.bind", "store.inuse"))
    if not events or not (events[0].kind == "store.bind" or is_store_port(facts.tracebacks)):
        return None
    port = next((p for e in events for name in ("bind_port", "port") if (p := field_text(e, name))), "")
    return log_signal(
        Grade.STATED,
        tell("port-taken" if port else "some-port-taken", port=port),
        events,
        "use-free-port",
        whole=False,
        because=(tell("left-over-process"),),
    )


def _unreachable(facts: Facts) -> DetectorResult | None:
    events = first_attempt(facts.events_of("store.connect", "rdzv.connect", "store.noaddr"))
    if not any(e.kind in ("store.connect", "rdzv.connect") for e in events):
        return None
    place = next((e for e in events if field_text(e, "host")), None)
    host = field_text(place, "host") if place is not None else ""
    loopback = bool(LOOPBACK.match(host))
    because = [tell("no-answer")]
    if loopback:
        because.insert(0, tell("loopback", host=host))
    return log_signal(
        Grade.STATED,
        tell("not-reached-at", host=host, port=field_text(place, "port")) if place is not None else tell("not-reached"),
        events,
        "use-reachable-master-address",
        whole=False,
        because=tuple(because),
    )


def _too_many(facts: Facts) -> DetectorResult | None:
    events = [e for e in first_attempt(facts.events_of("store.barrier_wait", "store.barrier_to")) if _joined(e)]
    over = [e for e in events if e.values["joined"] > e.values["world_size"]]
    if not over:
        return None
    return log_signal(
        Grade.STATED,
        tell("too-many", joined=over[0].values["joined"], world=over[0].values["world_size"]),
        over,
        "use-store-per-job",
        because=(tell("never-comes-back"),),
    )


def _too_few(facts: Facts) -> DetectorResult | None:
    events = first_attempt(facts.events_of("store.count", "store.barrier_to", "rdzv.to"))
    if not events:
        return None
    counted = next((e for e in events if _joined(e)), None)
    group = _group_number(events) or 1
    later = group > 1
    late = () if counted is None or later else _who_did_not_come(facts, counted)
    if counted is not None:
        summary = tell(
            "too-few-of" if late else "too-few",
            joined=counted.values["joined"],
            world=counted.values["world_size"],
            late=late,
        )
    else:
        summary = tell("too-few-nodes")
    return log_signal(
        Grade.ORDER,
        summary,
        events,
        "match-announced-world-size",
        whole=not later,
        **({"ranks": late} if late else {}),
        because=(tell("later-group", group=group), tell("late-or-elsewhere")) if later else (tell("missing-ones"),),
    )


def _who_did_not_come(facts: Facts, counted: LogEvent) -> tuple[int, ...]:
    """All but rank 0, which counts, and those that spoke, where these are as many as came."""
    came = {0, *facts.ranks_seen}
    everybody = set(range(counted.values["world_size"]))
    return tuple(sorted(everybody - came)) if len(came) == counted.values["joined"] and came < everybody else ()


def _joined(event: LogEvent) -> bool:
    return isinstance(event.values.get("joined"), int) and isinstance(event.values.get("world_size"), int)


def _group_number(events: tuple[LogEvent, ...]) -> int | None:
    """How many groups had been made: the number at the end of the barrier's key."""
    told = [numbers.integer(m[1]) for e in events if (m := _KEY_NUMBER.search(field_text(e, "key")))]
    return min((number for number in told if number is not None), default=None)


# ---------------------------------------------------------------------------------------------------
# stacks: all make a group


def detect_stacks(facts: Facts) -> Iterator[DetectorResult]:
    """Everybody alive makes a group, at one kind of call, and nobody moves: one is missing, or ranks make groups in
    different number or order (`new_group` inside `if rank in members:` and again outside). Never certain: who is
    missing is not in these stacks.
    """
    alive = [known for known in facts.ranks.values() if known.alive and known.stack is not None]
    if not alive or facts.graph.edges or not all(is_creating_group(known.activity) for known in alive):
        return
    if any(known.process.unanswered for known in alive):  # they have met: nobody is missing
        return
    calls = {GROUP_CREATION_CALLS[known.activity.what] for known in alive if known.activity is not None}
    if len(calls) != 1:
        return
    (call,) = calls
    ranks = tuple(known.rank for known in alive)
    still = all(known.moving is False or (known.moving is None and known.earlier_stacks) for known in alive)
    # A rank that exists and was not sampled may simply be on its way.
    everyone = len(alive) == len(facts.ranks)
    late = tuple(rank for rank in facts.ranks if rank not in ranks) if call == "init_process_group" else ()
    yield make_signal(
        Grade.STACK,
        tell("waits-for" if late else "waits-for-others", ranks=ranks, call=call, late=late),
        whole=still and everyone,
        ranks=late,
        nodes=hosts_of(facts, ranks),
        phase=Phase.INIT,
        where=None if late else place_of(facts, ranks[0]),
        waiter_where=place_of(facts, ranks[0]),
        because=(
            tell("none-moves" if still else "one-look"),
            tell("nothing-seen" if set(late) <= set(facts.ranks_missing) else "lives", late=late)
            if late
            else tell("store-waits" if call == "init_process_group" else "different-groups"),
        ),
        evidence=tuple(known.activity.evidence for known in alive[:3] if known.activity is not None),
        remedies=tuple(_remedies(call, alive)),
    )


def _remedies(call: str, alive: list[RankFacts]) -> Iterator[Remedy]:
    if call != "init_process_group":
        yield remedy("create-groups-everywhere")
        return
    yield remedy("check-launch-environment")
    if all(_past_the_store(known) for known in alive):
        # The group itself is being made: who is awaited may have come, and not be able to connect to here.
        yield remedy("bisect-network-setting")


def _past_the_store(known: RankFacts) -> bool:
    threads = known.stack.threads if known.stack is not None else ()
    return any(frame.function == "_new_process_group_helper" for thread in threads for frame in thread.frames)
