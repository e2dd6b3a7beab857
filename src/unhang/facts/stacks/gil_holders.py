"""Threads that keep the interpreter lock in native code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.facts.model import Facts, RankFacts
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.findings import Phase

# Native frames of a thread that wants the interpreter lock (CPython 3.10-3.14, pybind11).
WANTS_GIL = (
    "take_gil",
    "PyEval_RestoreThread",
    "PyEval_AcquireThread",
    "PyGILState_Ensure",
    "gil_scoped_acquire",
    "_PyThreadState_Attach",
)
_INTERPRETER = re.compile(r"(libpython|/python)\d|/(Python|Modules|Objects)/[\w/]+\.[ch]$")
"""A frame of CPython itself: its library or program, or with debugging symbols its C files."""


@dataclass(frozen=True, slots=True)
class GilHold:
    """``thread`` keeps the interpreter lock and does not move. ``whole``: nothing that could contradict it lacks."""

    thread: ThreadStack
    whole: bool


def gil_hold(facts: Facts, rank: RankFacts) -> GilHold | None:
    """None where no thread of this rank keeps the lock.

    A loop in pure Python holds the lock too, but gives it up many times a second, so that the rank still answers the
    request for a dump. Silence where others answered is what tells the two apart; but a rank whose heartbeat goes on is
    only slow to answer. torch.save and its like keep the lock while the disk takes what they write: that is a save. A
    thread that was seen on a processor computes, which may end while the job lives: that is work.
    """
    if rank.stack is None or rank.process.beats or (rank.activity is not None and rank.activity.phase is Phase.SAVE):
        return None
    holder = gil_holder(rank.stack)
    if holder is None or rank.recording is not None or (holder.active and any(m.live for m in facts.manifests)):
        return None
    others_answered = any(other.recording is not None for other in facts.ranks.values())
    if not others_answered and not sleeps_with_gil(holder):
        return None
    looks = [gil_holder(look) for look in rank.earlier_stacks]
    same = [look for look in looks if look is not None and _user_place(look) == _user_place(holder)]
    # a dump that is not there may have been lost: what tells for sure is a thread that sleeps with the lock, or our own
    # thread in the rank, which does not run
    told = sleeps_with_gil(holder) or rank.process.beats is False
    return GilHold(holder, whole=told and bool(same) and len(same) == len(looks))


def gil_holder(stack: StackDump) -> ThreadStack | None:
    """The thread that has the lock: marked so, or the only Python thread while another one waits for the lock."""
    marked = next((t for t in stack.threads if t.holds_gil and t.frames), None)
    if marked is not None:
        return marked
    if not any(_wants_gil(thread) for thread in (*stack.threads, *stack.own_threads)):
        return None
    running = [t for t in stack.threads if not _wants_gil(t) and any(is_user_frame(f) for f in t.frames)]
    return running[0] if len(running) == 1 else None


def sleeps_with_gil(thread: ThreadStack) -> bool:
    """The thread has the lock and does not run: it sleeps below Python. Only py-spy's JSON tells that of idle threads;
    a loop in Python would be running, and whoever waits in Python has given the lock up."""
    return thread.holds_gil is True and thread.active is False


def _wants_gil(thread: ThreadStack) -> bool:
    inner = thread.frames[:12]
    if any(any(name in frame.function for name in WANTS_GIL) for frame in inner):
        return True
    # Where the compiler has inlined take_gil only its timed wait is left; CPython's other locks wait on semaphores.
    return any(f.function == "pthread_cond_timedwait" and _INTERPRETER.search(g.file) for f, g in pairwise(inner))


def _user_place(thread: ThreadStack) -> Frame | None:
    return next((frame for frame in thread.frames if is_user_frame(frame)), None)
