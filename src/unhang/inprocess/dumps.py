"""A flight-recorder dump on request: written aside, then moved in place, so that nobody reads half of one."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from unhang.inprocess.recorder import Recorder
from unhang.inprocess.trouble import tell
from unhang.records.views import RecordView


def serve(view: RecordView, recorder: Recorder, folder: str, rank: int, *, stacks: bool) -> None:
    """Write the dump of this rank to ``folder``/dumps/rank_<N> and say in ``view`` how it went. Raises what torch
    raises."""
    began_ns = time.monotonic_ns()
    if not folder or not recorder.available():
        view.dump_result = "no recorder" if folder else "could not write"
        return
    data = recorder.dump(stacks=stacks)
    view.dump_cost_ns = time.monotonic_ns() - began_ns
    if data is None:
        view.dump_result = "no recorder"
        return
    try:
        _place(f"{folder}/dumps", f"rank_{rank}", data)
    except OSError as error:
        tell("could not write a dump", error)
        view.dump_result = "could not write"
        return
    view.dumped_ns = time.monotonic_ns()
    view.dump_result = "written" if recorder.on else "recorder off"


def _place(folder: str, name: str, data: bytes) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    aside = f"{folder}/.{name}.{os.getpid()}"
    number = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(number, rest) :]
    except OSError:
        with suppress(OSError):
            os.unlink(aside)  # noqa: PTH108
        raise
    finally:
        os.close(number)
    os.replace(aside, f"{folder}/{name}")  # noqa: PTH105
