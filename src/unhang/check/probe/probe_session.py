"""A probe process that answers question after question. It and its ranks end with this object, whatever happens."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from unhang.check.probe_results.probe_results import LINE_MARK, ProbeAnswer, find_answer

ANSWER_S = 100.0
"""The process ends every trial long before; this is for the process itself."""
START_S = 120.0
"""Loading torch from a network file system takes its time, and the ranks of other nodes have to come."""
_MAX_BYTES = 16 << 20


class ProbeSession:
    """``python -m unhang.check.probe serve`` with ``words``, in a session of its own; ``closing`` ends it."""

    def __init__(self, words: Sequence[str], told: Mapping[str, str]) -> None:
        self._words = words
        self._told = told
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""

    def ask(self, changes: Mapping[str, str]) -> ProbeAnswer:
        """What a probe under ``changes`` saw. A process that does not answer is ended; the next question starts one."""
        fresh = self._process is None
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(dict(changes)).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it said why it ended
        said = self._answer(process, ANSWER_S + (START_S if fresh else 0))
        if said is None or said.probed is None:
            self._kill()
        return said or ProbeAnswer(refused="the probe process did not answer")

    def follow(self) -> ProbeAnswer:
        """As a rank that only takes part: until rank 0 has ended."""
        process = self._start()
        return self._answer(process, START_S + 3600.0) or ProbeAnswer(refused="rank 0 gave no answer")

    def close(self) -> None:
        """Let it say goodbye to the ranks elsewhere, then end it."""
        process = self._process
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        self._kill()

    def _start(self) -> subprocess.Popen[bytes]:
        self._read = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "unhang.check.probe", "serve", "--of", str(os.getpid()), *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self._told},
            start_new_session=True,
        )
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], limit_s: float) -> ProbeAnswer | None:
        assert process.stdout is not None
        handle, deadline = process.stdout.fileno(), time.monotonic() + limit_s
        while time.monotonic() < deadline and len(self._read) < _MAX_BYTES:
            ready, _, _ = select.select([handle], [], [], min(1.0, max(0.0, deadline - time.monotonic())))
            data = os.read(handle, 1 << 16) if ready else b""
            self._read += data
            *whole, rest = self._read.split(b"\n")
            marked = next((line for line in whole if line.startswith(LINE_MARK.encode())), None)
            if marked is not None:
                self._read = rest
                return find_answer(marked.decode("utf-8", "replace"))
            if ready and not data:
                return None
        return None

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
