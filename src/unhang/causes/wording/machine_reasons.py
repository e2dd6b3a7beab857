"""What detectors say of signs on the machine: reasons, evidence and remedies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unhang.facts.machine.machine_state import MachineSign
from unhang.findings import Evidence, Remedy
from unhang.knowledge.remedies import remedy
from unhang.knowledge.thresholds import threshold
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

tell = Sentences("causes/machine-signs.toml")
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
            found = remedy(
                name, **{value: {**sign.values, "node": sign.node, "rank": sign.rank}[value] for value in values}
            )
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
    return tell(kind, **{**sign.values, "node": sign.node, "rank": sign.rank})


_REMEDIES = {
    "card-slowed": ("cool-or-replace-gpu", "card", "node"),
    "card-clocks": ("cool-or-replace-gpu", "card", "node"),
    "card-shared": ("remove-foreign-gpu-process", "pid", "card"),
    "cpu-limit": ("raise-cpu-limit", "group"),
    "cpu-starved": ("free-node-cpus", "node"),
    "cpu-shared": ("move-process-off-processors", "pid", "rank"),
    "disk-full": ("free-disk-space", "path"),
    "disk-silent": ("investigate-unresponsive-mount", "path", "node"),
    "disk-busy": ("investigate-slow-disk", "node"),
    "rank-blocked": ("investigate-slow-disk", "node"),
    "io-pressure": ("investigate-slow-disk", "node"),
}
"""Name of the remedy, then what it is told of the sign."""
