"""What the program says of itself goes into the record, at every beat."""

from __future__ import annotations

from unhang.inprocess import annotations as marked
from unhang.wire.layout import MAX_SPENT
from unhang.wire.record_views import GuardWait, MarkedPhase, RecordView, TimeSpent

_UNSPECIFIC_PHASES = ("compute", "other")


def write_annotations(view: RecordView, thread: int, seen: str) -> None:
    """Marks, waits and times into ``view``. ``thread``: whose words count first; ``seen``: the phase of its stack."""
    marks, wait = marked.marks(thread), marked.wait(thread)
    view.mark = _bounded_phase(marks) if marks else None
    view.wait = GuardWait(wait.what, wait.ranks, wait.since_ns, _ns(wait.limit_s)) if wait is not None else None
    view.phase = _phase(seen, marks, waits=wait is not None and not view.in_init)
    spent = sorted(marked.spent().items(), key=lambda item: -item[1].ns)[:MAX_SPENT]
    view.spent = [TimeSpent(label, one.ns, one.times) for label, one in spent]


def _bounded_phase(marks: tuple[marked.OpenPhase, ...]) -> MarkedPhase:
    """The innermost with a bound: what stands inside it is part of its time."""
    mark = next((mark for mark in reversed(marks) if mark.at_most_s is not None), marks[-1])
    return MarkedPhase(mark.label, mark.phase, mark.since_ns, _ns(mark.at_most_s))


def _ns(limit_s: float | None) -> int:
    return int(limit_s * 1e9) if limit_s is not None else -1


def _phase(seen: str, marks: tuple[marked.OpenPhase, ...], *, waits: bool) -> str:
    """Computing in a marked phase is that phase; waiting in a guard is communication, though no collective."""
    if waits:
        return "communication"
    return marks[-1].phase if marks and seen in _UNSPECIFIC_PHASES and marks[-1].phase != "other" else seen
