"""Flight-recorder dumps, on request or as the rank falls: written aside, then moved in place, so that nobody reads half
of one."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from types import TracebackType

from unhang.inprocess.capture import last_call
from unhang.inprocess.capture.recorder import FlightRecorder
from unhang.inprocess.internal_errors import log_internal_error
from unhang.inprocess.process_registration import write_atomically
from unhang.wire.control import Control
from unhang.wire.record import RecordWriter


class DumpWriter:
    """Writes ``folder``/dumps/rank_<N> and says in the record how it went."""

    def __init__(self, record: RecordWriter, recorder: FlightRecorder, folder: str, issuer: int) -> None:
        self._record, self._view = record, record.now
        self._recorder, self._folder, self._issuer = recorder, folder, issuer

    def serve(self, control: Control) -> None:
        """Write the dump that was asked for. It may take a second with stacks; the next beat says how long.
        Never raises."""
        view = self._view
        try:
            if control.dump_request > view.dump_served:
                self._keep_call(last_call.frames_of_thread(sys._current_frames().get(self._issuer)))  # noqa: SLF001
                self._write(stacks=False)
                view.dump_served = control.dump_request
                self._record.publish()
            if control.stacks_request > view.stacks_served and control.stacks_rank in (-1, view.identity.rank):
                self._write(stacks=True)
                view.stacks_served = control.stacks_request
                self._record.publish()
        except Exception as error:  # noqa: BLE001  never asked twice, never in the way of the next beat
            log_internal_error("no dump", error)
            view.dump_result = "failed"
            view.dump_served, view.stacks_served = control.dump_request, control.stacks_request
            self._record.publish()

    def write_crashed_call(self, trace: TracebackType) -> None:
        """Write the call the rank fell in; from the thread that falls, which need not wait for ours to get its turn on
        a busy machine. Raises what torch raises."""
        self._keep_call(last_call.frames_of_traceback(trace))

    def keep_everything(self) -> None:
        """Then, if the launcher leaves it the time, write everything recorded. Raises what torch raises."""
        self._write(stacks=False)
        self._record.publish()

    def _keep_call(self, frames: last_call.Frames) -> None:
        if not self._folder or not last_call.is_collective(frames):
            return
        data = last_call.dump_of_call(frames, self._recorder)
        if data is not None:
            with suppress(OSError):  # the whole dump that follows says so
                self._place(data)

    def _write(self, *, stacks: bool) -> None:
        view, began_ns = self._view, time.monotonic_ns()
        if not self._folder or not self._recorder.available():
            view.dump_result = "no recorder" if self._folder else "could not write"
            return
        data = self._recorder.dump(stacks=stacks)
        view.dump_cost_ns = time.monotonic_ns() - began_ns
        if data is None:
            view.dump_result = "no recorder"
            return
        try:
            self._place(data)
        except OSError as error:
            log_internal_error("could not write a dump", error)
            view.dump_result = "could not write"
            return
        view.dumped_ns = time.monotonic_ns()
        view.dump_result = "written" if self._recorder.on else "recorder off"

    def _place(self, data: bytes) -> None:
        folder = f"{self._folder}/dumps"
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        write_atomically(folder, f"rank_{self._view.identity.rank}", data)
