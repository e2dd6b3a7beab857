"""A short-lived child of the watcher that takes evidence and judges it: whatever goes wrong in it ends with it."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.nodes.transport.evidence_pack import pack_evidence
from unhang.watch.process_state.stack_collection import resume_if_stopped
from unhang.watch.reporting.verdict_summary import VerdictSummary, read_summary, write_summary
from unhang.watch.run_folder import RunFolder
from unhang.watch.sampling import earlier_evidence
from unhang.watch.verdict.evidence_request import EvidenceRequest, SamplingInterrupted
from unhang.watch.verdict.sample_collection import collect_evidence

LIMIT_S = 60.0
MEMORY = 4 << 30
_PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class DiagnosisChild:
    """A running child that samples and diagnoses. ``states``: of the ranks' processes when it began, by pid."""

    pid: int
    folder: RunFolder
    number: int
    deadline: float
    states: Mapping[int, str] = field(default_factory=dict)
    ended: bool = False
    failed: bool = False
    """Something of ours went wrong in it; its error is in ``.unhang/watcher.log``."""
    pidfd: int | None = None
    """Readable once it has ended."""

    @classmethod
    def start(
        cls, order: EvidenceRequest, folder: RunFolder, *, waited_s: float, width: int, pack_for: Path | None = None
    ) -> DiagnosisChild:
        """Fork. The watcher has one thread, and everything the child needs is loaded already.

        ``pack_for``: another node judges; pack the evidence there.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                if pack_for is None:
                    _work(order, folder, waited_s, width)
                else:
                    _pack(order, folder, pack_for)
                code = 0
            except SamplingInterrupted:
                code = 0
            except BaseException:  # noqa: BLE001 - the process edge
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        states = {member.pid: member.state for member in order.members.values() if member.ended_ns is None}
        child = cls(pid, folder, order.number, time.monotonic() + LIMIT_S, states)
        with suppress(OSError, AttributeError):
            child.pidfd = os.pidfd_open(pid)
        return child

    def over(self) -> bool:
        """Whether it has ended; one that takes too long is ended."""
        if not self.ended:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._close()
                self.failed = status != 0
            if self.failed:
                earlier_evidence.restore(self.folder.path)
            if not self.ended and time.monotonic() > self.deadline:
                self.end()
                self.failed = True
        return self.ended

    def wait(self) -> None:
        """Until it has ended."""
        while not self.over():
            time.sleep(0.02)

    def end(self) -> None:
        """End it and what it started now; a rank that py-spy held just then goes on."""
        if self.ended:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._close()
        for pid, before in self.states.items():
            resume_if_stopped(pid, before)
        earlier_evidence.restore(self.folder.path)

    def _close(self) -> None:
        self.ended = True
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None

    def answer(self) -> tuple[VerdictSummary, str] | None:
        """(summary, text for people); None when it came to nothing."""
        summary = read_summary(_summary_path(self.folder, self.number))
        if summary is None:
            return None
        with suppress(OSError):
            return summary, _text_path(self.folder, self.number).read_text(encoding="utf-8")
        return None


def _bind() -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _pack(order: EvidenceRequest, folder: RunFolder, target: Path) -> None:
    _bind()
    with suppress(SamplingInterrupted):  # then what an earlier sample found is there
        collect_evidence(order, folder.path)
    earlier_evidence.discard(folder.path)
    pack_evidence(folder.path, target)


def _work(order: EvidenceRequest, folder: RunFolder, waited_s: float, width: int) -> None:
    _bind()
    from unhang.watch.verdict.verdicts import diagnose_run_folder

    taken = collect_evidence(order, folder.path)
    if order.nodes is not None:
        order.nodes.gather(folder.path)
    summary, text = diagnose_run_folder(order, taken, folder.path, waited_s=waited_s, width=width)
    private_files.write_text(_text_path(folder, order.number), text)
    write_summary(_summary_path(folder, order.number), summary)


def _summary_path(folder: RunFolder, number: int) -> Path:
    return folder.path / ".unhang" / f"summary-{number}.json"


def _text_path(folder: RunFolder, number: int) -> Path:
    return folder.path / ".unhang" / f"verdict-{number}.txt"
