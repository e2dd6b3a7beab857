"""Of several jobs on one machine the one that stands still is told from those that move."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from unhang.watch.attach.rank_selection import stuck_jobs
from unhang.watch.process_state.proc_processes import read_process
from unhang.watch.process_state.rank_processes import LiveRank

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
STANDS = "print(flush=True); import threading; threading.Event().wait()"
MOVES = "print(flush=True); import threading\nwhile True: sum(range(1000))"


@contextmanager
def rank(code: str, job: str) -> Iterator[LiveRank]:
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            seen = read_process(process.pid)
            assert seen is not None
            yield LiveRank(seen, 0, 1, 0, 0, None, (job,))
        finally:
            process.kill()


def test_the_job_that_stands_still_is_found() -> None:
    with ExitStack() as stack:
        jobs = {(name,): [stack.enter_context(rank(code, name))] for name, code in (("a", MOVES), ("b", STANDS))}
        assert stuck_jobs(jobs) == [("b",)]


def test_a_job_that_is_gone_does_not_stand_still() -> None:
    with rank(STANDS, "a") as gone:
        pass
    assert stuck_jobs({("a",): [gone]}) == []
