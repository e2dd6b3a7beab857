"""Which thread keeps the interpreter lock, told from C frames."""

from __future__ import annotations

import pytest

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.facts.stacks.gil_holders import gil_holder
from unhang.findings import Source

HOLDER = (Frame("usleep", "/lib/libc.so.6", None, native=True), Frame("compress", "/home/me/train.py", 23))


def waits(*native: tuple[str, str]) -> ThreadStack:
    frames = tuple(Frame(function, file, None, native=True) for function, file in native)
    return ThreadStack(None, "2", (*frames, Frame("Sleep.sleep", "/lib/python3.11/site-packages/x/sleep.py", 45)))


def stack(other: ThreadStack) -> StackDump:
    return StackDump(Source("rank_1.txt"), 1, 1, (ThreadStack("MainThread", "1", HOLDER), other), "py-spy")


@pytest.mark.parametrize(
    "native",
    [
        (("take_gil", "/lib/libpython3.11.so.1.0"),),
        (("pthread_cond_timedwait", "/lib/libc.so.6"), ("lock_acquire", "/lib/libpython3.11.so.1.0")),
        (("pthread_cond_timedwait", "/lib/libc.so.6"), ("select_poll_poll_impl", "/b/Modules/selectmodule.c")),
        (("pthread_cond_timedwait", "/lib/libc.so.6"), ("PyEval_EvalFrameDefault", "/b/Python/ceval.c")),
    ],
    ids=["named", "inlined", "inlined, with C files", "in the interpreter's loop"],
)
def test_a_thread_that_waits_for_the_lock_shows_who_has_it(native: tuple[tuple[str, str], ...]) -> None:
    holder = gil_holder(stack(waits(*native)))

    assert holder is not None
    assert holder.frames == HOLDER


def test_our_own_thread_shows_it_too() -> None:
    ours = waits(("take_gil", "/lib/libpython3.11.so.1.0"))
    seen = StackDump(
        Source("rank_1.txt"), 1, 1, (ThreadStack("MainThread", "1", HOLDER),), "py-spy", own_threads=(ours,)
    )

    holder = gil_holder(seen)

    assert holder is not None
    assert holder.frames == HOLDER


@pytest.mark.parametrize(
    "native",
    [
        (("poll", "/lib/libc.so.6"), ("select_poll_poll_impl", "/b/Modules/selectmodule.c")),
        (("pthread_cond_timedwait", "/lib/libc.so.6"), ("wait_for_work", "/opt/pool/src/queue.c")),
    ],
)
def test_a_thread_that_waits_for_something_else_shows_nothing(native: tuple[tuple[str, str], ...]) -> None:
    assert gil_holder(stack(waits(*native))) is None
