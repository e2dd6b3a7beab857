"""Stacks of all ranks, equal ones folded: ``ranks 0-2, 4-7`` stand at the same frames."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from unhang.evidence.items import Frame
from unhang.facts.model import Activity, CodeContext, Facts, PendingCall
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.findings import Phase
from unhang.report.html.late_ranks import pending_calls
from unhang.report.localizer import Localizer
from unhang.sentences import say

MAX_GROUPS, MAX_FRAMES = 60, 80
_SHORT = re.compile(r"^.*/(?:site-packages|dist-packages)/|^.*/lib(?:64)?/(?=python3)")

_Key = tuple[str, tuple[Frame, ...]]


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """One frame as it is shown; ``own`` marks the user's code."""

    function: str
    place: str
    own: bool


@dataclass(frozen=True, slots=True)
class FrameRun:
    """Frames of one kind that follow each other. ``folded``: what stands for them; empty where they are shown."""

    frames: tuple[ShownFrame, ...]
    folded: str


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Ranks with equal Python frames. ``runs`` innermost first; ``phase`` is empty where it says nothing."""

    ranks: tuple[int, ...]
    thread: str
    phase: str
    laggard: bool
    runs: tuple[FrameRun, ...]
    cut: int
    source: str


def stack_groups(facts: Facts, late: frozenset[int], localizer: Localizer) -> tuple[tuple[StackGroup, ...], int]:
    """Groups of the threads that issue collectives and of others worth a word, and how many groups were left out."""
    found: defaultdict[_Key, list[tuple[int, Activity]]] = defaultdict(list)
    for rank, known in sorted(facts.ranks.items()):
        if known.activity is not None and known.activity.frames:
            found["", _python(known.activity.frames)].append((rank, known.activity))
        for activity in known.threads:
            if activity.frames:
                found[_thread(activity), _python(activity.frames)].append((rank, activity))
    calls = pending_calls(facts)
    for rank, call in sorted(calls.items()):
        seen = facts.ranks.get(rank)
        if call.stack and (seen is None or seen.activity is None or not seen.activity.frames):
            found["", _python(call.stack)].append((rank, _recorded(call)))
    groups = [_group(thread, same, late, localizer) for (thread, _), same in _ordered(found, late)[:MAX_GROUPS]]
    return tuple(groups), max(0, len(found) - MAX_GROUPS)


def _recorded(call: PendingCall) -> Activity:
    """The call site a flight recorder kept, for a rank no stack was taken of."""
    where, source = call.where, CodeContext.NO_SOURCE
    return Activity(Phase.COMMUNICATION, "collective", where, call.stack, None, source, call.evidence, call.operation)


def _python(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Frames that can be equal between processes; native ones carry addresses."""
    return tuple(frame for frame in frames if not frame.native) or frames


def _thread(activity: Activity) -> str:
    return activity.thread.name if activity.thread is not None else "thread"


def _ordered(
    found: dict[_Key, list[tuple[int, Activity]]], late: frozenset[int]
) -> list[tuple[_Key, list[tuple[int, Activity]]]]:
    def order(item: tuple[_Key, list[tuple[int, Activity]]]) -> tuple[bool, bool, int, int]:
        (thread, _), same = item
        return bool(thread), not any(rank in late for rank, _ in same), -len(same), same[0][0]

    return sorted(found.items(), key=order)


def _group(thread: str, same: Iterable[tuple[int, Activity]], late: frozenset[int], localizer: Localizer) -> StackGroup:
    known = list(same)
    activity = known[0][1]
    ranks = tuple(sorted({rank for rank, _ in known}))
    return StackGroup(
        ranks=ranks,
        thread=localizer.line(thread, 60),
        phase="" if activity.phase is Phase.OTHER else localizer.word(activity.phase.value),
        laggard=not thread and any(rank in late for rank in ranks),
        runs=tuple(_runs([_shown(frame, localizer) for frame in activity.frames[:MAX_FRAMES]], localizer)),
        cut=max(0, len(activity.frames) - MAX_FRAMES),
        source=localizer.line(activity.evidence.source.path, 160),
    )


def _runs(frames: list[ShownFrame], localizer: Localizer) -> Iterator[FrameRun]:
    """Several frames of libraries are folded under the call that the user's code made; a stack without any is not."""
    folds = any(frame.own for frame in frames)
    for own, same in groupby(frames, key=lambda frame: frame.own):
        run = tuple(same)
        several = say("{count} library frames, called as {name}", count=len(run), name=run[-1].function)
        yield FrameRun(run, localizer.say(several) if folds and not own and len(run) > 1 else "")


def _shown(frame: Frame, localizer: Localizer) -> ShownFrame:
    own = is_user_frame(frame)
    file = frame.file if own else _SHORT.sub("", frame.file)
    line = f":{frame.line}" if frame.line is not None else ""
    return ShownFrame(localizer.line(frame.function, 160), localizer.line(file, 200) + line, own)
