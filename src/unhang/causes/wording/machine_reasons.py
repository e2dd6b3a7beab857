"""What detectors say of signs on the machine: reasons, evidence and remedies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unhang.facts.machine.machine_state import MachineSign
from unhang.findings import Evidence, Remedy
from unhang.knowledge.remedies import remedy
from unhang.knowledge.thresholds import threshold
from unhang.sentences import Text, say

MAX_SIGNS = 4
MUCH_ELSEWHERE = threshold("machine_reasons.much_elsewhere")
"""Processors."""


def because(signs: Iterable[MachineSign]) -> Iterator[Text]:
    """One sentence a sign."""
    for sign in list(signs)[:MAX_SIGNS]:
        yield _reason(sign)


def evidence(signs: Iterable[MachineSign]) -> tuple[Evidence, ...]:
    """The lines of the series."""
    return tuple(sign.evidence for sign in list(signs)[:MAX_SIGNS])


def remedies(signs: Iterable[MachineSign]) -> Iterator[Remedy]:
    """What to change, each once."""
    told: set[str] = set()
    for sign in signs:
        remedy = _remedy(sign)
        if remedy is not None and str(remedy.title) not in told:
            told.add(str(remedy.title))
            yield remedy


def _reason(sign: MachineSign) -> Text:  # noqa: C901 - one sentence a kind
    told = {**sign.values, "node": sign.node, "rank": sign.rank}
    if sign.kind == "card-slowed" and sign.values["peers_mhz"]:
        return say(
            "card {card} of {node}, on which rank {rank} runs, holds its clocks down ({reasons}): {mhz:.0f} MHz, "
            "the others run at {peers_mhz:.0f} MHz",
            **told,
        )
    if sign.kind == "card-slowed":
        return say("card {card} of {node}, on which rank {rank} runs, holds its clocks down ({reasons})", **told)
    if sign.kind == "card-clocks":
        return say(
            "card {card} of {node}, on which rank {rank} runs, runs at {mhz:.0f} MHz under load, the others at "
            "{peers_mhz:.0f} MHz",
            **told,
        )
    if sign.kind == "card-shared":
        return say("process {pid}, which is not the job's, is on rank {rank}'s card {card} of {node}", **told)
    if sign.kind == "cpu-limit":
        return say(
            "the control group of rank {rank} may use {limit:g} processors and was held up in "
            "{percent} % of the periods",
            **told,
        )
    if sign.kind == "cpu-starved" and sign.values["pid"] is not None:
        return say(
            "rank {rank} was ready to run and got no processor {percent} % of the time (others: {peers_percent} %); "
            "process {pid}, which is not the job's, used {cpus:.1f} processors",
            **told,
        )
    if sign.kind == "cpu-starved" and sign.values.get("elsewhere", 0.0) >= MUCH_ELSEWHERE:
        return say(
            "rank {rank} was ready to run and got no processor {percent} % of the time (others: {peers_percent} %); "
            "processes that are not the job's used {elsewhere:.1f} of {processors} processors",
            **told,
        )
    if sign.kind == "cpu-starved":
        return say(
            "rank {rank} was ready to run and got no processor {percent} % of the time (others: {peers_percent} %)",
            **told,
        )
    if sign.kind == "memory-stalls":
        return say("processes on {node} stood still for memory {percent} % of the time", **told)
    if sign.kind == "disk-silent":
        return say("the file system under {path} on {node} gave no answer for {seconds} s", **told)
    if sign.kind == "disk-full":
        return say("the file system under {path} on {node} is full: {free_mib} of {size_mib} MiB free", **told)
    if sign.kind == "disk-busy":
        return say("the disk under {path} on {node} was busy {percent} % of the time", **told)
    if sign.kind == "rank-blocked":
        return say(
            "rank {rank} stood in a read or write that the kernel had not finished, in {times} of {of} looks", **told
        )
    if sign.kind == "io-pressure":
        return say("processes on {node} stood still for disks {percent} % of the time", **told)
    if sign.kind == "link-lost":
        return say("the link of {link} on {node} was lost or came back while the ranks waited", **told)
    if sign.kind == "link-errors":
        return say("{link} on {node} counted {count} errors while the ranks waited", **told)
    return say("{node} had to send {percent} % of its TCP segments again ({count}) while the ranks waited", **told)


def _remedy(sign: MachineSign) -> Remedy | None:
    makers = {
        "card-slowed": _cool,
        "card-clocks": _cool,
        "card-shared": _free_the_card,
        "cpu-limit": _raise_limit,
        "cpu-starved": _free_processors,
        "disk-full": _make_room,
        "disk-silent": _ask_its_server,
        "disk-busy": _speed_the_disk,
        "rank-blocked": _speed_the_disk,
        "io-pressure": _speed_the_disk,
    }
    return makers[sign.kind](sign) if sign.kind in makers else None


def _cool(sign: MachineSign) -> Remedy:
    return remedy("cool-or-replace-gpu", card=sign.values["card"], node=sign.node)


def _free_the_card(sign: MachineSign) -> Remedy:
    return remedy("remove-foreign-gpu-process", pid=sign.values["pid"], card=sign.values["card"])


def _raise_limit(sign: MachineSign) -> Remedy:
    return remedy("raise-cpu-limit", group=sign.values["group"])


def _free_processors(sign: MachineSign) -> Remedy:
    return remedy("free-node-cpus", node=sign.node)


def _ask_its_server(sign: MachineSign) -> Remedy:
    path = sign.values["path"]
    return remedy("investigate-unresponsive-mount", path=path, node=sign.node)


def _speed_the_disk(sign: MachineSign) -> Remedy:
    return remedy("investigate-slow-disk", node=sign.node)


def _make_room(sign: MachineSign) -> Remedy:
    return remedy("free-disk-space", path=sign.values["path"])
