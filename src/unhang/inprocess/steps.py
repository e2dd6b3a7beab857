"""How fast the job goes: steps the user's loop counted, or whole rounds of collectives once the watcher knows one."""

from __future__ import annotations

from unhang.inprocess import annotations as marked
from unhang.wire.layout import MAX_STEPS
from unhang.wire.record_views import RecordView

_WEIGHT = 0.1


class StepCounter:
    """Turns counts into steps and their durations, once a beat."""

    def __init__(self) -> None:
        self._steps, self._at_ns, self._source = -1, -1, ""

    def follow(self, view: RecordView, collectives_per_step: int, now_ns: int) -> None:
        """Bring the step fields of ``view`` up to date."""
        source, steps, at_ns = _count(view, collectives_per_step, now_ns)
        view.step_source, view.collectives_per_step = source, collectives_per_step
        if source == "none":
            return
        view.steps = steps
        if source != self._source or steps < self._steps:
            self._source, self._steps, self._at_ns = source, steps, -1  # begin at the next whole step
            return
        if steps == self._steps:
            return
        if self._at_ns >= 0:
            _add(view, (at_ns - self._at_ns) // (steps - self._steps))
        self._steps, self._at_ns, view.last_step_ns = steps, at_ns, at_ns


def _count(view: RecordView, collectives_per_step: int, now_ns: int) -> tuple[str, int, int]:
    counted, counted_ns = marked.steps()
    if counted:
        return "guards", counted, counted_ns
    busiest = max(view.groups, key=lambda group: group.enqueued, default=None)
    if collectives_per_step > 0 and busiest is not None and busiest.enqueued > 0:
        return "rhythm", busiest.enqueued // collectives_per_step, now_ns
    return "none", 0, now_ns


def _add(view: RecordView, duration_ns: int) -> None:
    view.step_durations_ns.append(duration_ns)
    del view.step_durations_ns[:-MAX_STEPS]
    mean_ns = view.step_mean_ns or float(duration_ns)
    view.step_mean_ns = mean_ns + _WEIGHT * (duration_ns - mean_ns)
