"""What TORCH_DISTRIBUTED_DEBUG=DETAIL and torch's dump analyser say of two ranks that issued different calls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unhang.evidence.items import LogEvent, PythonTraceback, Signature
from unhang.facts.collective_operations import canonical_operation, minority, signature_differences
from unhang.facts.logs.log_statements import first_attempt, quote_event
from unhang.facts.model import Facts
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Call, Evidence, Phase, Where
from unhang.knowledge import numbers

_SIDE_WORK = re.compile(r"save|checkpoint|eval|valid|test|log|metric|sync_buffers|state_dict", re.IGNORECASE)
_PHASES = (
    (re.compile(r"save|checkpoint|state_dict", re.IGNORECASE), Phase.SAVE),
    (re.compile(r"eval|valid|test", re.IGNORECASE), Phase.EVAL),
)


@dataclass(frozen=True, slots=True)
class FingerprintMismatch:
    """Ranks disagree at ``position``; ``differs_in`` among operation, size, dtype."""

    position: int | None
    calls: Mapping[int, Signature]
    unposted: frozenset[int]
    """Ranks that have posted nothing yet."""
    differs_in: tuple[str, ...]
    outliers: tuple[int, ...]
    """The minority by what they called; empty when it is unknown."""
    side_work: tuple[int, ...]
    """Ranks whose own traceback stands in saving, evaluating or logging."""
    phase: Phase | None
    where: Where | None
    evidence: tuple[Evidence, ...]

    def as_calls(self) -> tuple[Call, ...]:
        """The calls side by side."""
        together: dict[tuple[str, int | None, str | None], list[int]] = {}
        for rank, call in sorted(self.calls.items()):
            elements = call.input_elements if call.input_sizes else None
            together.setdefault((call.operation, elements, next(iter(call.input_dtypes), None)), []).append(rank)
        return tuple(
            Call(tuple(ranks), operation, self.position, elements, dtype)
            for (operation, elements, dtype), ranks in together.items()
        )


def fingerprint_mismatch(facts: Facts) -> FingerprintMismatch | None:
    """The first mismatch in order of position; None when nothing printed one, or a side is unknown."""
    events = first_attempt(facts.events_of("det.mis"))
    culprits = first_attempt(facts.events_of("fr.culprit"))
    if not events:
        return None
    positions = {p for e in events if (p := _field(e, "mine").get("position")) is not None}
    first = min((p for p in positions if p is not None), default=None)
    calls: dict[int, Signature] = {}
    unposted: set[int] = set()
    used = []
    for event in events:
        if _field(event, "mine").get("position") != first and first is not None:
            continue
        used.append(event)
        for name, rank in (("mine", "rank"), ("theirs", "other_rank")):
            parsed, who = _field(event, name), event.values.get(rank)
            if parsed and isinstance(who, int) and who not in calls:
                calls[who] = _signature(parsed)
                if parsed.get("position") == 0 and first and not calls[who].input_sizes:
                    unposted.add(who)
    named = tuple(sorted({e.values["rank"] for e in culprits if "rank" in e.values}))
    posted = {rank: call for rank, call in calls.items() if rank not in unposted}
    differs = signature_differences(posted.values()) if posted else ()
    side = _ranks_in_side_work(facts, tuple(calls))
    return FingerprintMismatch(
        position=first,
        calls=calls,
        unposted=frozenset(unposted),
        differs_in=differs or tuple(_stated_differences(used)),
        outliers=named or tuple(rank for rank in _outlier_ranks(calls) if rank in posted),
        side_work=tuple(sorted(side)),
        phase=next(iter(side.values()), (None, None))[0],
        where=next(iter(side.values()), (None, _first_where(facts)))[1],
        evidence=tuple(quote_event(e) for e in (*used[:2], *culprits[:2])),
    )


def _field(event: LogEvent, name: str) -> Mapping[str, Any]:
    value = event.values.get(name)
    return value if isinstance(value, dict) else {}


def _signature(parsed: Mapping[str, Any]) -> Signature:
    shape, dtype = tuple(parsed.get("shape", ())), str(parsed.get("dtype", ""))
    operation = canonical_operation(str(parsed.get("operation", "")))
    return Signature(operation, None, (shape,) if shape else (), (), (dtype,) if dtype else (), ())


def _stated_differences(events: list[LogEvent]) -> list[str]:
    text = " ".join(str(e.values.get("differ", "")) for e in events)
    return [name for name, word in (("operation", "Op type"), ("size", "shapes"), ("dtype", "dtypes")) if word in text]


def _outlier_ranks(calls: Mapping[int, Signature]) -> tuple[int, ...]:
    alike: dict[Signature, list[int]] = defaultdict(list)
    for rank, call in calls.items():
        alike[call].append(rank)
    return minority(alike)


def _ranks_in_side_work(facts: Facts, ranks: tuple[int, ...]) -> dict[int, tuple[Phase | None, Where | None]]:
    """Ranks whose mismatch traceback goes through a function that saves, evaluates or logs."""
    found: dict[int, tuple[Phase | None, Where | None]] = {}
    for traceback in facts.tracebacks:
        told = re.search(r"Rank (\d+) is running", traceback.message)
        rank = traceback.rank if traceback.rank is not None else numbers.rank(told[1]) if told else None
        if rank is None or "Detected mismatch" not in traceback.message or rank not in ranks:
            continue
        name = next((f.function for f in traceback.frames if _SIDE_WORK.search(f.function)), None)
        if name is not None:
            phase = next((phase for pattern, phase in _PHASES if pattern.search(name)), None)
            if phase is not None:
                found[rank] = (phase, first_user_frame(traceback.frames))
    return found


def _first_where(facts: Facts) -> Where | None:
    own: list[PythonTraceback] = [t for t in facts.tracebacks if "Detected mismatch" in t.message]
    return next((where for t in own if (where := first_user_frame(t.frames)) is not None), None)
