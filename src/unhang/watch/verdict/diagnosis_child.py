"""The child that takes evidence at one moment and judges it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.nodes.transport.evidence_pack import pack_evidence
from unhang.watch.process_state.stack_collection import resume_if_stopped
from unhang.watch.run_folder import RunFolder
from unhang.watch.sampling import kept_evidence
from unhang.watch.side_process import ForkedChild
from unhang.watch.verdict.evidence_request import EvidenceRequest, SamplingInterrupted
from unhang.watch.verdict.sample_collection import collect_evidence
from unhang.wire.documents.verdict_summary import VerdictSummary, read_summary


@dataclass(slots=True)
class DiagnosisChild:
    """A running child that samples and diagnoses. ``states``: of the ranks' processes when it began, by pid."""

    request: EvidenceRequest
    folder: RunFolder
    process: ForkedChild
    states: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def start(cls, request: EvidenceRequest, folder: RunFolder) -> DiagnosisChild:
        """Fork."""
        states = {member.pid: member.state for member in request.members.values() if member.ended_ns is None}
        return cls(request, folder, ForkedChild(lambda: _work(request, folder)), states)

    def over(self) -> bool:
        """Whether it has ended; one that takes too long is ended."""
        over = self.process.over()
        if self.process.failed:
            self._clean_up()
        return over

    def wait(self) -> None:
        """Until it has ended."""
        self.process.wait()

    def end(self) -> None:
        """End it and what it started now."""
        self.process.end()
        self._clean_up()

    def _clean_up(self) -> None:
        """A rank that py-spy held just then goes on, and the evidence of the sample before is back in its place."""
        for pid, before in self.states.items():
            resume_if_stopped(pid, before)
        kept_evidence.restore(self.folder.path)

    def answer(self) -> tuple[VerdictSummary, str] | None:
        """(summary, text for people); None when it came to nothing."""
        summary_path, text_path = _answer_paths(self.folder, self.request)
        summary = read_summary(summary_path)
        if summary is None:
            return None
        with suppress(OSError):
            return summary, text_path.read_text(encoding="utf-8")
        return None


def _work(request: EvidenceRequest, folder: RunFolder) -> None:
    with suppress(SamplingInterrupted):
        if request.pack_for is None:
            _diagnose(request, folder)
        else:
            _pack(request, folder, request.pack_for)


def _pack(request: EvidenceRequest, folder: RunFolder, target: Path) -> None:
    with suppress(SamplingInterrupted):  # then what an earlier sample found is there
        collect_evidence(request, folder.path)
    kept_evidence.discard(folder.path)
    pack_evidence(folder.path, target)


def _diagnose(request: EvidenceRequest, folder: RunFolder) -> None:
    from unhang.watch.verdict.verdicts import diagnose_run_folder

    taken = collect_evidence(request, folder.path)
    if request.nodes is not None:
        request.nodes.gather(folder.path)
    summary, text = diagnose_run_folder(request, taken, folder.path)
    summary_path, text_path = _answer_paths(folder, request)
    private_files.write_text(text_path, text)
    private_files.write_json(summary_path, asdict(summary), indent=None)


def _answer_paths(folder: RunFolder, request: EvidenceRequest) -> tuple[Path, Path]:
    """Of the summary and of the text."""
    own = folder.path / ".unhang"
    return own / f"summary-{request.number}.json", own / f"verdict-{request.number}.txt"
