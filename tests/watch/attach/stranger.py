"""A case of the lab as a stranger's job: plain torchrun, nothing of unhang in it, stuck when somebody attaches."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.watch.attach.plain_jobs import PlainJob, has_joined, plain_job
from unhang.watch.process_state.stack_collection import sample_kernel
from unhang_lab.lab_case import LabCase

STILL_S = 2.5
ENOUGH_TICKS = 5
INJECT_AFTER = 6
"""Lines each rank must have printed before a fault comes from outside."""
_FREEZER = """\
import runpy
import threading
import time
from pathlib import Path

from unhang_lab.frozen_transport import freeze_transport, wait_until


def freeze(order=Path(__file__).with_name("order")):
    while not order.exists():
        time.sleep(0.02)
    wait_until(float(order.read_text()))
    freeze_transport()


threading.Thread(target=freeze, name="fault", daemon=True).start()
runpy.run_path(str(Path(__file__).with_name("train.py")), run_name="__main__")
"""


@contextlib.contextmanager
def stranger(case: LabCase, folder: Path) -> Iterator[PlainJob]:
    """``case`` running, at its moment: nobody whom it concerns moves any more, or all have moved for a while."""
    folder.mkdir(parents=True)
    script = folder / "train.py"
    shutil.copy(case.path, script)
    if case.injection is not None and case.injection.kind == "freeze-transport":
        script = folder / "start.py"
        script.write_text(_FREEZER)
    with plain_job(folder, script, ranks=case.ranks) as job:
        job.wait_for(lambda: len(job.ranks) == case.ranks and all(has_joined(rank.pid) for rank in job.ranks))
        if case.injection is not None or case.moment == "moving":
            job.wait_for(lambda: _printed_lines(job) >= INJECT_AFTER)
        if case.injection is not None:
            _inject(case, job, folder)
        if case.moment == "moving":
            time.sleep(2.0)
        else:
            _wait_for_stillness(job)
        yield job


def _printed_lines(job: PlainJob) -> int:
    return min((text.count("\n") for text in job.printed()), default=0)


def _inject(case: LabCase, job: PlainJob, folder: Path) -> None:
    injection = case.injection
    assert injection is not None
    if injection.kind == "freeze-transport":
        lines = _printed_lines(job)
        job.wait_for(lambda: _printed_lines(job) > lines)
        (folder / "order.new").write_text(f"{time.time() + 0.5:.3f}")
        (folder / "order.new").replace(folder / "order")
        return
    assert injection.rank is not None
    os.kill(job.pid_of(injection.rank), getattr(signal, f"SIG{injection.kind}"))


def _wait_for_stillness(job: PlainJob) -> None:
    """All but one rank have hardly used the processor and the last has printed nothing new for a while."""
    since: dict[int, tuple[int, float]] = {}
    said, said_s = job.printed(), time.monotonic()

    def still() -> bool:
        nonlocal said, said_s
        now = time.monotonic()
        for rank in job.ranks:
            ticks = sample_kernel(rank.pid).process_ticks or 0
            if ticks > since.get(rank.pid, (-ENOUGH_TICKS, 0.0))[0] + ENOUGH_TICKS - 1:
                since[rank.pid] = (ticks, now)
        if _got_on(job.printed()) != _got_on(said):
            said, said_s = job.printed(), now
        standing = [pid for pid, (_, when) in since.items() if now - when > STILL_S]
        return len(standing) >= len(job.ranks) - 1 and now - said_s > STILL_S

    job.wait_for(still)


def _got_on(printed: list[str]) -> int:
    """How far the last of them came: a rank that works alone may go on printing, and a reporting thread repeats
    itself."""
    return min((len(set(text.splitlines())) for text in printed), default=0)
