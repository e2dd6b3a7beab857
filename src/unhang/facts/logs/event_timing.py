"""How far the job had come when a line was printed: an error at first use is configuration, after hours a fault."""

from __future__ import annotations

import enum
import re

from unhang.evidence.items import LogEvent, Progress
from unhang.facts.model import Facts, once
from unhang.knowledge.thresholds import threshold, whole_threshold

# So many finished collectives or steps are a job that ran.
RAN_STEPS = whole_threshold("event_timing.ran_steps")
RAN_POSITIONS = whole_threshold("event_timing.ran_positions")
STEPS_A_SECOND = threshold("event_timing.steps_a_second")
_BYTES = re.compile(r"[kKMGT]?i?B")
_TRAINING = re.compile(r"train|epoch|step|iter|loss|update|batch", re.IGNORECASE)
_PREPARING = re.compile(
    r"token|preproc|map|load|download|shard|filter|pack|convert|generating|index|shuffl|cach|resolv|extract",
    re.IGNORECASE,
)


class EventTiming(str, enum.Enum):
    """At the first use of communication, or after steps had run."""

    FIRST_USE = "first-use"
    """Communicators were being made or had just been made; no step was finished."""
    RUNNING = "running"
    """Steps had been finished over the same connections."""
    UNKNOWN = "unknown"


def is_training(progress: Progress) -> bool:
    """A counter of the training loop, not of preparing data."""
    return bool(_TRAINING.search(progress.label)) and not _PREPARING.search(progress.label)


def is_preparing(progress: Progress) -> bool:
    """A bar of work before the loop: tokenising, loading, downloading; by its name, or as it counts bytes or rows."""
    return bool(_PREPARING.search(progress.label)) or _counts_data(progress)


def _counts_data(progress: Progress) -> bool:
    """Bytes, or more a second than there are steps."""
    if _BYTES.fullmatch(progress.unit):
        return True
    elapsed_s = progress.elapsed_s
    return elapsed_s is not None and progress.last_step > STEPS_A_SECOND * max(1.0, elapsed_s)


def is_preparation_function(name: str) -> bool:
    """A function of this name prepares data: ``map``, ``load_dataset``, ``tokenize``."""
    return bool(_PREPARING.search(name))


def timing_of(facts: Facts, event: LogEvent) -> EventTiming:
    """How far the job was when ``event`` was printed."""
    if any(_ran_before(progress, event) for log in facts.logs for progress in log.progress):
        return EventTiming.RUNNING
    if _last_awaited(facts) > RAN_POSITIONS:
        return EventTiming.RUNNING
    if facts.events_of("n.init_start", "n.init_complete", "n.boot", "n.ver", "n.net", "store.barrier_ok"):
        return EventTiming.FIRST_USE
    return EventTiming.FIRST_USE if _is_group_creation_error(facts, event) else EventTiming.UNKNOWN


def _last_awaited(facts: Facts) -> int:
    return max((e.values["position"] for e in facts.events_of("wd.timeout") if "position" in e.values), default=0)


def steps_were_made(facts: Facts) -> bool:
    """A counter of the program advanced, or ranks had finished or waited in so many collectives: a number that stands
    alone may be a setting (``--batch 64``)."""
    counted = any(_is_of_steps(run) and run.last_step > run.first_step for log in facts.logs for run in log.progress)
    finished = (progress.completed for group in facts.groups.values() for progress in group.progress.values())
    return counted or max(_last_awaited(facts), *finished, 0) > RAN_POSITIONS


def _ran_before(progress: Progress, event: LogEvent) -> bool:
    if not _is_of_steps(progress):
        return False
    same_file = progress.source.path == event.source.path
    if same_file and event.source.line is not None and (progress.source.line or 0) > event.source.line:
        return False
    if not same_file and progress.first_time_s is not None and event.time_s is not None:
        return progress.first_time_s < event.time_s
    return progress.last_step >= RAN_STEPS or progress.last_step > progress.first_step


def _is_of_steps(progress: Progress) -> bool:
    return not is_preparing(progress) and progress.last_step >= 1


def _is_group_creation_error(facts: Facts, event: LogEvent) -> bool:
    """The error came from making the group itself."""
    return _raised_in_making(facts) or _MAKING.search(event.text) is not None


_MAKING = re.compile(r"connectFullMesh|Bootstrap|ncclCommInit")
_MAKERS = {"init_process_group", "_new_process_group_helper", "new_group", "barrier"}


@once
def _raised_in_making(facts: Facts) -> bool:
    """A traceback leads into the making of a group, or its message names it."""
    return any(
        _MAKING.search(raised.message[:400]) or any(frame.function in _MAKERS for frame in raised.frames)
        for raised in facts.tracebacks
    )
