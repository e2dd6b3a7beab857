"""How fast the job goes: steps the user's loop counted, else those of its optimizers, else whole rounds of collectives
once the watcher knows one."""

from __future__ import annotations

import sys
import time
from typing import Any

from unhang.inprocess import annotations as marked
from unhang.wire.layout import MAX_STEPS
from unhang.wire.record_views import RecordView

_WEIGHT = 0.1


class _OptimizerSteps:
    """Steps of the loop, by torch's own global hook: one begins where an optimizer comes again.

    So a generator beside its discriminator, and DeepSpeed's ZeRO, which steps its inner optimizer once for each group
    of parameters (stage_1_and_2.py ``_optimizer_step``), count once a loop.
    """

    def __init__(self) -> None:
        self.count, self.at_ns = 0, -1
        self._stepped: set[tuple[int, int]] = set()

    def __call__(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        try:
            key = id(optimizer), next((id(one) for group in optimizer.param_groups for one in group["params"]), 0)
        except (AttributeError, KeyError, TypeError):  # one that keeps its parameters otherwise
            key = id(optimizer), 0
        if key in self._stepped or not self.count:
            self.count += 1
            self.at_ns = time.monotonic_ns()
            self._stepped.clear()
        self._stepped.add(key)


_optimizers = _OptimizerSteps()


def count_optimizer_steps() -> None:
    """From now on. About half a microsecond a step; torch calls it outside of what it compiles."""
    register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None)
    if register is not None:
        register(_optimizers)


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
    if _optimizers.count:
        return "optimizer", _optimizers.count, _optimizers.at_ns
    busiest = max(view.groups, key=lambda group: group.enqueued, default=None)
    if collectives_per_step > 0 and busiest is not None and busiest.enqueued > 0:
        return "rhythm", busiest.enqueued // collectives_per_step, now_ns
    return "none", 0, now_ns


def _add(view: RecordView, duration_ns: int) -> None:
    view.step_durations_ns.append(duration_ns)
    del view.step_durations_ns[:-MAX_STEPS]
    mean_ns = view.step_mean_ns or float(duration_ns)
    view.step_mean_ns = mean_ns + _WEIGHT * (duration_ns - mean_ns)
