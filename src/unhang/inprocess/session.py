"""One armed rank: what our thread keeps, and what it does at every beat."""

from __future__ import annotations

import _thread
import os
import platform
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from unhang.inprocess import annotations as marked
from unhang.inprocess import process_registration, steps
from unhang.inprocess.capture.crash import CrashEvidence, allow_watcher, traceback_lines
from unhang.inprocess.capture.dumps import DumpWriter
from unhang.inprocess.capture.frames import StackSampler
from unhang.inprocess.capture.recorder import FlightRecorder, GroupNames
from unhang.inprocess.heartbeat_sleep import HeartbeatSleep
from unhang.inprocess.import_hooks import DISTRIBUTED
from unhang.inprocess.internal_errors import environment_number, log_internal_error, restart_attempt
from unhang.wire.control import DEFAULT_BEAT_MS, WAKE_FIFO_SUFFIX, Control, ControlReader
from unhang.wire.record import RecordWriter, record_path
from unhang.wire.record_views import HIDDEN_COLLECTIVES, RankIdentity

_FAILURES = 5
_STOP_LIMIT_S = 0.5
_CRASH_DUMP_LIMIT_S = 0.25
_SYNCHRONOUS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


class Session:
    """State of an armed rank. Made by the thread that enters init_process_group; then only our thread works on it,
    but for plain flags."""

    def __init__(self, rank: int, world_size: int, backend: str) -> None:
        self.pid = os.getpid()
        self.rank, self.world_size, self.backend = rank, world_size, backend
        self.armed_ns = time.monotonic_ns()
        self.init_depth = 0
        self.group_was_up = False
        self.exiting = self.stopping = False
        self.groups = GroupNames()
        self.issuer, self.native_id = threading.get_ident(), threading.get_native_id()
        self.folder = os.environ["UNHANG_RUN"]
        self.run_folder = os.environ.get("UNHANG_RUN_DIR", "")
        self.crash: CrashEvidence | None = None
        self.record: RecordWriter | None = None
        self._control: ControlReader | None = None
        self._watcher = 0
        self._backend_known = False
        self._sleep = HeartbeatSleep()
        self._dumps: DumpWriter | None = None
        self._sampler: StackSampler | None = None
        self._crashed = False
        self._done, self._kept = _thread.allocate_lock(), _thread.allocate_lock()

    def start(self) -> None:
        """Start our thread: not one of ``threading``'s, so the program neither lists it nor waits for it."""
        self._done.acquire()
        self._kept.acquire()
        _thread.start_new_thread(self._run, ())

    def stop(self) -> None:
        """Tell our thread to end and give it half a second."""
        self.stopping = True
        self._sleep.wake()
        self._done.acquire(True, _STOP_LIMIT_S)

    def on_uncaught_exception(self, trace: TracebackType | None) -> None:
        """An exception nobody caught ends this rank: our thread writes its dump, the caller waits a quarter of a second
        for it at most. Never raises."""
        dumps = self._dumps
        if dumps is None or self.stopping or trace is None:
            return
        try:
            if self._sampler is not None:
                self._sampler.falls(traceback_lines(trace)[::-1], time.monotonic_ns())
            dumps.write_crashed_call(trace)
        except Exception as error:  # noqa: BLE001  the edge to the user's program
            log_internal_error("no dump of the call it fell in", error)
        self._crashed = True
        self._sleep.wake()
        self._kept.acquire(True, _CRASH_DUMP_LIMIT_S)

    def leave_child(self) -> None:
        """In a forked child: nothing of it touches its parent's files."""
        self._sleep.leave_child()
        if self.crash is not None:
            self.crash.leave_child()

    def _run(self) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - _SYNCHRONOUS)
            self._set_up()
            self._beat_until_stopped()
        except Exception as error:  # noqa: BLE001  the edge of our thread
            log_internal_error("the record stopped", error)
        finally:
            self._done.release()

    def _set_up(self) -> None:
        path = record_path(Path(self.folder), restart_attempt(), self.pid)
        with suppress(FileNotFoundError):
            path.unlink()  # of the program this process ran before it called exec
        identity = RankIdentity(
            self.pid,
            self.rank,
            environment_number("LOCAL_RANK"),
            self.world_size,
            restart_attempt(),
            self.armed_ns,
            platform.python_version(),
            str(getattr(sys.modules.get("torch"), "__version__", "")),
        )
        self.record = RecordWriter.create(path, identity)
        self._sleep.create_wake_fifo(f"{path.with_suffix(WAKE_FIFO_SUFFIX)}")
        self.record.now.backend = self.backend
        self.record.now.in_init = self.init_depth > 0
        process_registration.register_process("init", rank=self.rank, world_size=self.world_size)
        self._control = Control.open_read(Path(self.folder))
        if self.run_folder:
            self.crash = CrashEvidence(self.run_folder, self.rank, self.on_uncaught_exception)
            try:
                self.crash.set_up()
            except OSError as error:
                log_internal_error("no evidence of a crash will be kept", error)

    def _beat_until_stopped(self) -> None:
        assert self.record is not None
        sampler, recorder, rhythm = (
            StackSampler(self.issuer, self.native_id),
            FlightRecorder(self.groups),
            steps.StepCounter(),
        )
        dumps = DumpWriter(self.record, recorder, self.run_folder, self.issuer)
        failures = 0
        self._dumps, self._sampler = dumps, sampler
        while not self.stopping:
            if self._crashed:
                self._crashed = False
                sampler.sample(self.record.now, time.monotonic_ns())
                self.record.publish()  # a launcher may end this rank any moment
                self._keep_everything(dumps)
            control = self._control.read() if self._control is not None else Control()
            try:
                self._beat(sampler, recorder, rhythm, control)
                failures = 0
            except Exception as error:  # noqa: BLE001  one bad beat is no reason to stop
                log_internal_error("a beat failed", error)
                failures += 1
                if failures >= _FAILURES:
                    self._give_up()
                    return
            dumps.serve(control)
            # never in step with the job: a beat that meets every step at the same line would take that for all it does
            uneven = 0.5 + hash((self.pid, self.record.now.beats)) % 1024 / 1024
            self._sleep.sleep(uneven * min(max(control.beat_ms or DEFAULT_BEAT_MS, 10), 10_000) / 1e3)
        marked.write_annotations(self.record.now, self.issuer, sampler.phase)
        rhythm.follow(self.record.now, self.record.now.collectives_per_step, time.monotonic_ns())
        self._publish_end()

    def _beat(
        self, sampler: StackSampler, recorder: FlightRecorder, rhythm: steps.StepCounter, control: Control
    ) -> None:
        record = self.record
        assert record is not None
        cost_ns, now_ns = time.thread_time_ns(), time.monotonic_ns()
        view = record.now
        view.beat_ns, view.beat_wall_ns, view.beats = now_ns, time.time_ns(), view.beats + 1
        view.in_init, view.exiting = self.init_depth > 0, self.exiting
        sampler.sample(view, now_ns)
        marked.write_annotations(view, self.issuer, sampler.phase)
        names = self._world(view)
        self._ask(recorder, now_ns, in_a_call=view.phase == "communication" or view.top.function in HIDDEN_COLLECTIVES)
        view.recorder_on, view.groups = recorder.on, recorder.living(names)
        rhythm.follow(view, control.collectives_per_step, now_ns)
        if self.crash is not None:
            self.crash.beat(now_ns)
        if control.watcher_pid != self._watcher:
            self._watcher = control.watcher_pid
            allow_watcher(self._watcher)
        record.publish()
        spent_ns = time.thread_time_ns()
        view.beat_cost_ns = spent_ns
        if view.beats > 1:  # the first one imports, looks up and opens
            view.longest_beat_ns = max(view.longest_beat_ns, spent_ns - cost_ns)
            view.longest_pause_ns = max(view.longest_pause_ns, time.monotonic_ns() - now_ns)

    def _ask(self, recorder: FlightRecorder, now_ns: int, *, in_a_call: bool) -> None:
        """How far every group is; a recorder that fails is asked no more, and the heartbeat goes on without it."""
        try:
            recorder.read(now_ns, in_a_call=in_a_call)
            recorder.learn()
        except Exception as error:  # noqa: BLE001  whatever another version of torch raises
            log_internal_error("the flight recorder's status cannot be read", error)
            recorder.leave()

    def _world(self, view: Any) -> list[str]:
        """Names of the groups that exist now; also notes groups made by other ways than new_group."""
        module = sys.modules.get(DISTRIBUTED)
        world = getattr(module, "_world", None)
        if world is None:
            return []
        names = list(world.pg_names.values())  # names only: a group must never live on because we looked
        up = world.default_pg is not None
        view.closed, self.group_was_up = self.group_was_up and not up, self.group_was_up or up
        if up and not self._backend_known:
            self._backend_known = True
            self._settle(view, world)
        return names

    def _settle(self, view: Any, world: Any) -> None:
        """What only the finished default group tells: its backends, and the rank where nobody said it before."""
        config = world.pg_backend_config.get(world.default_pg, "")
        view.backend = config or view.backend
        if self.rank < 0 and self.record is not None:
            self.rank, self.world_size = world.default_pg.rank(), world.default_pg.size()
            view.identity.rank, view.identity.world_size = self.rank, self.world_size
            self.record.write_identity()
            process_registration.register_process("init", rank=self.rank, world_size=self.world_size)

    def _keep_everything(self, dumps: DumpWriter) -> None:
        try:
            dumps.keep_everything()
        except Exception as error:  # noqa: BLE001  the rank falls as it would
            log_internal_error("no dump of the fall", error)
        finally:
            with suppress(RuntimeError):
                self._kept.release()

    def _give_up(self) -> None:
        self._dumps = None
        if self.record is not None:
            self.record.now.gave_up = True
            self.record.publish()

    def _publish_end(self) -> None:
        self._dumps = None
        self._sleep.end()
        if self.record is not None:
            self.record.now.exiting = self.exiting
            self.record.now.ended = True
            self.record.publish()
        if self.crash is not None:
            self.crash.end()
