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
    request: EvidenceRequest
    deadline: float
    states: Mapping[int, str] = field(default_factory=dict)
    ended: bool = False
    failed: bool = False
    """Something of ours went wrong in it; its error is in ``.unhang/watcher.log``."""
    pidfd: int | None = None
    """Readable once it has ended."""

    @classmethod
    def start(cls, request: EvidenceRequest, folder: RunFolder) -> DiagnosisChild:
        """Fork. The watcher has one thread, and everything the child needs is loaded already."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _bind()
                with suppress(SamplingInterrupted):
                    if request.pack_for is None:
                        _diagnose(request, folder)
                    else:
                        _pack(request, folder, request.pack_for)
                code = 0
            except BaseException:  # noqa: BLE001 - the process edge
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        states = {member.pid: member.state for member in request.members.values() if member.ended_ns is None}
        child = cls(pid, folder, request, time.monotonic() + LIMIT_S, states)
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
        summary_path, text_path = _answer_paths(self.folder, self.request)
        summary = read_summary(summary_path)
        if summary is None:
            return None
        with suppress(OSError):
            return summary, text_path.read_text(encoding="utf-8")
        return None


def _bind() -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _pack(request: EvidenceRequest, folder: RunFolder, target: Path) -> None:
    with suppress(SamplingInterrupted):  # then what an earlier sample found is there
        collect_evidence(request, folder.path)
    earlier_evidence.discard(folder.path)
    pack_evidence(folder.path, target)


def _diagnose(request: EvidenceRequest, folder: RunFolder) -> None:
    from unhang.watch.verdict.verdicts import diagnose_run_folder

    taken = collect_evidence(request, folder.path)
    if request.nodes is not None:
        request.nodes.gather(folder.path)
    summary, text = diagnose_run_folder(request, taken, folder.path)
    summary_path, text_path = _answer_paths(folder, request)
    private_files.write_text(text_path, text)
    write_summary(summary_path, summary)


def _answer_paths(folder: RunFolder, request: EvidenceRequest) -> tuple[Path, Path]:
    """Of the summary and of the text."""
    own = folder.path / ".unhang"
    return own / f"summary-{request.number}.json", own / f"verdict-{request.number}.txt"
