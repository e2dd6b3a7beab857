"""What the program says of itself: the phases it marked, the steps it counted, whom it waits for in a guard.

Plain values of this process, written by the thread they are about and copied into the record at every beat. Writing
takes no lock: each change swaps one whole value for another, so a reader sees the one before or the one after. Works
the same where nobody watches.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import get_ident

from unhang.wire.layout import MAX_SPENT
from unhang.wire.record_views import GuardWait, MarkedPhase, RecordView, TimeSpent

MAX_LABELS = 64
"""Time is kept apart for so many labels; what comes later counts as ``OTHERS``."""
OTHERS = "others"


@dataclass(slots=True)
class OpenPhase:
    """A phase that goes on. ``at_most_s``: how long its author expects it to take at most."""

    label: str
    phase: str
    at_most_s: float | None
    since_ns: int
    inner_ns: int = 0
    """Time of the marks inside it, which is theirs."""


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A guard waits. ``ranks``: for whom, as far as it knows; ``limit_s``: after so long it gives up."""

    what: str
    ranks: tuple[int, ...]
    since_ns: int
    limit_s: float | None = None


@dataclass(slots=True)
class LabelTime:
    """The time of all marks of one label without the marks inside them, and how often there was one."""

    ns: int = 0
    times: int = 0


@dataclass(slots=True)
class _Annotations:
    marks: dict[int, tuple[OpenPhase, ...]] = field(default_factory=dict)
    waits: dict[int, OpenWait] = field(default_factory=dict)
    spent: dict[str, LabelTime] = field(default_factory=dict)
    steps: int = 0
    step_ns: int = -1


_current = _Annotations()


def enter(label: str, phase: str = "other", at_most_s: float | None = None) -> OpenPhase:
    """A phase of this thread begins. ``phase``: one of ``record_views.PHASES``. About a microsecond with its end."""
    mark = OpenPhase(label, phase, at_most_s, time.monotonic_ns())
    thread = get_ident()
    _current.marks[thread] = (*_current.marks.get(thread, ()), mark)
    return mark


def leave(mark: OpenPhase | None = None) -> None:
    """``mark`` ends, and with it what was entered after it; without one, this thread's innermost."""
    thread = get_ident()
    marks = _current.marks.get(thread, ())
    if mark is not None and not any(known is mark for known in marks):
        return  # ended already, or of another thread
    while marks:
        last, marks = marks[-1], marks[:-1]
        took_ns = time.monotonic_ns() - last.since_ns
        spent = _current.spent.get(last.label) or _label_time(last.label)
        spent.ns, spent.times = spent.ns + took_ns - last.inner_ns, spent.times + 1
        if marks:
            marks[-1].inner_ns += took_ns
        if mark is None or last is mark:
            break
    if marks:
        _current.marks[thread] = marks
    else:
        _current.marks.pop(thread, None)


def _label_time(label: str) -> LabelTime:
    return _current.spent.setdefault(label if len(_current.spent) < MAX_LABELS else OTHERS, LabelTime())


def step() -> None:
    """A step of the training loop is done. A tenth of a microsecond."""
    _current.step_ns = time.monotonic_ns()
    _current.steps += 1


def steps() -> tuple[int, int]:
    """(steps done, when the last one was: monotonic, -1 before the first)."""
    return _current.steps, _current.step_ns


def begin_wait(what: str, ranks: Iterable[int] = (), *, limit_s: float | None = None) -> None:
    """This thread waits in a guard, for ``ranks`` where it knows, ``limit_s`` at most. Said again with other ranks, the
    wait goes on."""
    thread = get_ident()
    known = _current.waits.get(thread)
    since_ns = known.since_ns if known is not None and known.what == what else time.monotonic_ns()
    _current.waits[thread] = OpenWait(what, tuple(ranks), since_ns, limit_s)


def end_wait() -> None:
    """This thread waits no more."""
    _current.waits.pop(get_ident(), None)


def marks(thread: int) -> tuple[OpenPhase, ...]:
    """What goes on, outermost first: in ``thread`` where it marked something, else in any other."""
    found = dict(_current.marks)
    return found.get(thread) or next(iter(found.values()), ())


def wait(thread: int) -> OpenWait | None:
    """Whom ``thread`` waits for, else any other."""
    found = dict(_current.waits)
    return found.get(thread) or next(iter(found.values()), None)


def spent() -> dict[str, LabelTime]:
    """Time by label of the marks that ended; the oldest labels first."""
    return dict(_current.spent)


def reset_annotations() -> None:
    """Drop all marks, waits and steps: in a forked child, which begins anew."""
    for said in (_current.marks, _current.waits, _current.spent):
        said.clear()
    _current.steps, _current.step_ns = 0, -1


_UNSPECIFIC_PHASES = ("compute", "other")


def write_annotations(view: RecordView, thread: int, seen: str) -> None:
    """Marks, waits and times into ``view``. ``thread``: whose words count first; ``seen``: the phase of its stack."""
    open_marks, guard = marks(thread), wait(thread)
    view.mark = _bounded_phase(open_marks) if open_marks else None
    view.wait = GuardWait(guard.what, guard.ranks, guard.since_ns, _ns(guard.limit_s)) if guard is not None else None
    view.phase = _phase(seen, open_marks, waits=guard is not None and not view.in_init)
    longest = sorted(spent().items(), key=lambda item: -item[1].ns)[:MAX_SPENT]
    view.spent = [TimeSpent(label, one.ns, one.times) for label, one in longest]


def _bounded_phase(open_marks: tuple[OpenPhase, ...]) -> MarkedPhase:
    """The innermost with a bound: what stands inside it is part of its time."""
    mark = next((mark for mark in reversed(open_marks) if mark.at_most_s is not None), open_marks[-1])
    return MarkedPhase(mark.label, mark.phase, mark.since_ns, _ns(mark.at_most_s))


def _ns(limit_s: float | None) -> int:
    return int(limit_s * 1e9) if limit_s is not None else -1


def _phase(seen: str, open_marks: tuple[OpenPhase, ...], *, waits: bool) -> str:
    """Computing in a marked phase is that phase; waiting in a guard is communication, though no collective."""
    if waits:
        return "communication"
    innermost = open_marks[-1].phase if open_marks else "other"
    return innermost if seen in _UNSPECIFIC_PHASES and innermost != "other" else seen
