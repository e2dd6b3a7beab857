"""What torchrun starts on each rank: the user's script, run as it is, beside one quiet recorder thread.

``python -m torch.distributed.run … worker.py train.py ARGS``. The script runs as ``__main__`` with its own
``sys.argv`` and ``sys.path[0]``. A daemon thread says where the rank stands (``beat/RANK``), and writes the
flight-recorder dump when the recorder asks for it (``ask/dump``). The dump is also written when the script ends, by
itself or by an exception, and when the process aborts (Gloo aborts on a size mismatch; nothing else keeps it then).

Only the standard library is imported before torch. Nothing in here may raise into the script.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

BEAT_INTERVAL_S = 0.2
THREAD_NAME = "unhang-recorder"


class Recorder:
    """Writes this rank's beats and dumps into the meeting folder shared with the recorder process."""

    def __init__(self, meeting: Path, rank: int, c10d: Any) -> None:
        self.meeting = meeting
        self.rank = rank
        nccl = hasattr(c10d, "_dump_nccl_trace") and os.environ.get("UNHANG_LAB_BACKEND") == "nccl"
        function = "_dump_nccl_trace" if nccl else "_dump_fr_trace"
        self._take: Callable[..., bytes] = getattr(c10d, function)
        self._take_json: Callable[..., bytes] = getattr(c10d, f"{function}_json")
        self._answered = 0
        self._frozen = False
        self._last_beat = b""

    def introduce(self) -> None:
        """Tell the recorder process which rank this process is."""
        me = {
            "rank": self.rank,
            "local_rank": int(os.environ.get("LOCAL_RANK", self.rank)),
            "pid": os.getpid(),
            "host": os.uname().nodename,
            "world_size": int(os.environ.get("WORLD_SIZE", "1")),
        }
        write_whole(self.meeting / "ranks" / str(self.rank), json.dumps(me).encode())

    def beat(self) -> None:
        """Say where this rank stands in its groups when that changed; the file's time is when it did."""
        position = self._take_json(False, False)
        if position != self._last_beat:
            write_whole(self.meeting / "beat" / str(self.rank), position)
            self._last_beat = position

    def dump(self, name: str) -> None:
        """Write every recorded collective with its Python frames."""
        write_whole(self.meeting / "dumps" / f"{name}.{self.rank}", self._take(True, True, False))

    def stacks(self, name: str) -> None:
        """Write the Python stacks of all threads: used when py-spy may not look into this process."""
        with (self.meeting / "stacks" / f"{name}.{self.rank}").open("w") as file:
            faulthandler.dump_traceback(file, all_threads=True)

    def answer(self) -> None:
        """Do what the recorder process asked for since the last time."""
        asked = sorted(int(path.name) for path in (self.meeting / "ask").iterdir() if path.name.isdigit())
        for number in asked:
            if number > self._answered:
                self._answered = number
                wait_until(float((self.meeting / "ask" / str(number)).read_text()))
                self.dump(str(number))
                self.stacks(str(number))

    def freeze_when_asked(self) -> None:
        """Freeze the transport once, at the moment all ranks were told."""
        order = self.meeting / "ask" / "freeze-transport"
        if not self._frozen and order.exists():
            self._frozen = True
            wait_until(float(order.read_text()))
            freeze_transport()

    def watch(self) -> None:
        """Body of the recorder thread."""
        while self.meeting.exists():
            try:
                self.beat()
                self.answer()
                self.freeze_when_asked()
            except (OSError, RuntimeError):
                pass  # the job matters, the recording does not
            time.sleep(BEAT_INTERVAL_S)


def wait_until(moment_s: float) -> None:
    """Sleep until a moment all ranks were told (seconds since the epoch), so that they act together."""
    time.sleep(min(2.0, max(0.0, moment_s - time.time())))


def write_whole(path: Path, content: bytes) -> None:
    """Write so that a reader sees nothing or everything, for the owner's eyes only."""
    unfinished = path.with_name(f".{path.name}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    unfinished.replace(path)


def freeze_transport() -> None:
    """Stop the threads that move Gloo's bytes, so that a collective everyone joined cannot finish.

    Each such thread gets a signal whose handler is libc's ``pause``: it sleeps in the handler for good, no privilege
    needed, while the rest of the process goes on. The fault of a network that swallows packets, on one machine.
    """
    libc = ctypes.CDLL(None)
    libc.signal(int(signal.SIGUSR1), ctypes.cast(libc.pause, ctypes.c_void_p))
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith("gloo_tcp_loop"):
            _send_to_thread(libc, int(task.name))


def _send_to_thread(libc: ctypes.CDLL, thread: int) -> None:
    tgkill = {"x86_64": 234, "aarch64": 131}.get(os.uname().machine)
    if tgkill is not None:
        libc.syscall(tgkill, os.getpid(), thread, int(signal.SIGUSR1))


def keep_dump_on_abort(recorder: Recorder) -> Any:
    """Write the dump when C++ aborts the process, then let it die as it would. Returns what must be kept alive."""
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    faulthandler.enable()

    def on_abort(number: int) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            recorder.dump("end")
        # Raised again in here it waits until this handler returns, and then goes to faulthandler, which prints the
        # stacks and ends the process by the same signal.
        libc.signal(number, ctypes.c_void_p(faulthandlers))
        getattr(libc, "raise")(number)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(on_abort)
    faulthandlers = libc.signal(int(signal.SIGABRT), handler)
    return handler


def keep_stack_on_termination(recorder: Recorder) -> TextIO:
    """Write the stacks when torchrun ends this rank because a sibling failed, then let it end as it would.

    Done by faulthandler in C, so that it works in the middle of any call. Returns the file, which must stay open.
    """
    descriptor = os.open(recorder.meeting / "stacks" / f"end.{recorder.rank}", os.O_WRONLY | os.O_CREAT, 0o600)
    file = os.fdopen(descriptor, "w")
    faulthandler.register(signal.SIGTERM, file=file, all_threads=True, chain=True)
    return file


def allow_ptrace() -> None:
    """Let py-spy attach where Yama allows only parents to (Ubuntu's default); harmless elsewhere."""
    set_ptracer, anyone = 0x59616D61, ctypes.c_ulong(-1)
    ctypes.CDLL(None).prctl(set_ptracer, anyone, 0, 0, 0)


def main() -> None:
    """Run ``sys.argv[1]`` as the main script with the remaining arguments."""
    meeting = Path(os.environ["UNHANG_LAB_MEETING"])
    script = str(Path(sys.argv[1]).resolve())
    sys.argv = [script, *sys.argv[2:]]
    sys.path[0] = str(Path(script).parent)

    import torch._C._distributed_c10d as c10d  # after the environment is complete: the ring's size is read once

    recorder = Recorder(meeting, int(os.environ["RANK"]), c10d)
    allow_ptrace()
    kept_alive = keep_dump_on_abort(recorder), keep_stack_on_termination(recorder)
    recorder.introduce()
    threading.Thread(target=recorder.watch, name=THREAD_NAME, daemon=True).start()
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        recorder.dump("end")
        del kept_alive


if __name__ == "__main__":
    main()
