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
        name, *values = _REMEDIES.get(sign.kind, ("",))
        if name:
            found = remedy(name, **{value: {**sign.values, "node": sign.node}[value] for value in values})
            if str(found.title) not in told:
                told.add(str(found.title))
                yield found


def _reason(sign: MachineSign) -> Text:
    kind = sign.kind
    if kind == "card-slowed" and not sign.values["peers_mhz"]:
        kind = "card-slowed-alone"
    elif kind == "cpu-starved" and sign.values["pid"] is not None:
        kind = "cpu-taken-by-process"
    elif kind == "cpu-starved" and sign.values.get("elsewhere", 0.0) >= MUCH_ELSEWHERE:
        kind = "cpu-taken-by-others"
    return Text(_SAID[kind].template, {**sign.values, "node": sign.node, "rank": sign.rank})


_SAID = {
    "card-slowed": say(
        "card {card} of {node}, on which rank {rank} runs, holds its clocks down ({reasons}): {mhz:.0f} MHz, "
        "the others run at {peers_mhz:.0f} MHz"
    ),
    "card-slowed-alone": say("card {card} of {node}, on which rank {rank} runs, holds its clocks down ({reasons})"),
    "card-clocks": say(
        "card {card} of {node}, on which rank {rank} runs, runs at {mhz:.0f} MHz under load, the others at "
        "{peers_mhz:.0f} MHz"
    ),
    "card-shared": say("process {pid}, which is not the job's, is on rank {rank}'s card {card} of {node}"),
    "cpu-limit": say(
        "the control group of rank {rank} may use {limit:g} processors and was held up in {percent} % of the periods"
    ),
    "cpu-taken-by-process": say(
        "rank {rank} was ready to run and got no processor {percent} % of the time (others: {peers_percent} %); "
        "process {pid}, which is not the job's, used {cpus:.1f} processors"
    ),
    "cpu-taken-by-others": say(
        "rank {rank} was ready to run and got no processor {percent} % of the time (others: {peers_percent} %); "
        "processes that are not the job's used {elsewhere:.1f} of {processors} processors"
    ),
    "cpu-starved": say(
        "rank {rank} was ready to run and got no processor {percent} % of the time (others: {peers_percent} %)"
    ),
    "memory-stalls": say("processes on {node} stood still for memory {percent} % of the time"),
    "disk-silent": say("the file system under {path} on {node} gave no answer for {seconds} s"),
    "disk-full": say("the file system under {path} on {node} is full: {free_mib} of {size_mib} MiB free"),
    "disk-busy": say("the disk under {path} on {node} was busy {percent} % of the time"),
    "rank-blocked": say(
        "rank {rank} stood in a read or write that the kernel had not finished, in {times} of {of} looks"
    ),
    "io-pressure": say("processes on {node} stood still for disks {percent} % of the time"),
    "link-lost": say("the link of {link} on {node} was lost or came back while the ranks waited"),
    "link-errors": say("{link} on {node} counted {count} errors while the ranks waited"),
    "sent-again": say("{node} had to send {percent} % of its TCP segments again ({count}) while the ranks waited"),
}
_REMEDIES = {
    "card-slowed": ("cool-or-replace-gpu", "card", "node"),
    "card-clocks": ("cool-or-replace-gpu", "card", "node"),
    "card-shared": ("remove-foreign-gpu-process", "pid", "card"),
    "cpu-limit": ("raise-cpu-limit", "group"),
    "cpu-starved": ("free-node-cpus", "node"),
    "disk-full": ("free-disk-space", "path"),
    "disk-silent": ("investigate-unresponsive-mount", "path", "node"),
    "disk-busy": ("investigate-slow-disk", "node"),
    "rank-blocked": ("investigate-slow-disk", "node"),
    "io-pressure": ("investigate-slow-disk", "node"),
}
"""Name of the remedy, then what it is told of the sign."""
