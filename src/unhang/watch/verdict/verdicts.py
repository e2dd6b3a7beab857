"""From the evidence in a run folder to a verdict, its level, and the files that carry it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.facts.waiting.timeouts import guard_limit, is_limit_near, limit_at_s, live_manifest
from unhang.findings import Cause, Certainty, Finding, Severity, Status, Verdict
from unhang.knowledge.reasoning_rows import causes_that
from unhang.report.html.page import write_html
from unhang.report.text import to_text
from unhang.report.text_serialization import text_to_json
from unhang.report.verdict_document import to_json
from unhang.watch import private_files
from unhang.watch.run_folder import RunFolder
from unhang.watch.sampling import kept_evidence
from unhang.watch.sampling.bundle_files import write_manifest
from unhang.watch.sampling.kept_source import keep_source
from unhang.watch.verdict.evidence_request import EvidenceRequest, SampleResult, SamplingInterrupted
from unhang.watch.verdict.sample_manifest import manifest_of
from unhang.wire.documents.verdict_summary import VerdictLevel, VerdictSummary

ARRIVAL_S = 30.0
"""So long the processes of one job may be apart when they start."""
DOUBT_S = 5.0
"""So long the ranks must have waited before a finding that is only possible is said, or an honest unknown."""


def diagnose_run_folder(request: EvidenceRequest, taken: SampleResult, folder: Path) -> tuple[VerdictSummary, str]:
    """Diagnose what lies in ``folder``; write manifest, source, verdict and report. Returns (summary, text for people).

    Raises:
        Interrupted: the verdict of before is the better one; it and its evidence are back in their place.
    """
    manifest = manifest_of(request, taken)
    evidence = read_evidence([str(folder)])
    manifest = msgspec.structs.replace(manifest, **keep_source(evidence, folder))
    facts = build_facts(evidence)
    verdict = diagnose(facts)
    if request.said is not None and _strength(*_leading_cause(verdict)) < max(1, _strength(*request.said)):
        kept_evidence.restore(folder)
        raise SamplingInterrupted("the end of the job tells less than the wait before it did")
    limit_at, gives_up = _first_limit(facts, request.stalled_since_s)
    level = level_of(verdict, facts, waited_s=request.waited_s, live=request.live)
    needs_lines = request.live and not request.with_stacks and bool(facts.mismatches)
    if needs_lines and level is VerdictLevel.STALL:
        level = VerdictLevel.WAITING
    write_manifest(folder, manifest)
    verdict = replace(_with_times(verdict, request, limit_at), gives_up=gives_up)
    text = _write(verdict, facts, folder, request.width, request.lang)
    if request.live:
        kept_evidence.save_judged(folder)
    return _summary(request, verdict, facts, level, limit_at, needs_lines=needs_lines), text


def _first_limit(facts: Facts, stalled_since_s: float | None) -> tuple[float | None, str]:
    """When the first limit of those who wait passes (seconds since the epoch), and the guard whose it is, if any."""
    at_s, guard = limit_at_s(facts, stalled_since_s), guard_limit(facts)
    if guard is not None and (at_s is None or guard[0] < at_s):
        return guard
    return at_s, ""


def _leading_cause(verdict: Verdict) -> tuple[str, str]:
    if not verdict.findings or verdict.status is Status.HEALTHY:
        return "", ""
    return verdict.findings[0].cause.value, verdict.findings[0].certainty.value


def _strength(cause: str, certainty: str) -> int:
    """0 for no or unknown cause, else 1 + the order of its certainty."""
    if cause in ("", Cause.UNKNOWN.value):
        return 0
    return 1 + Certainty(certainty).order


def level_of(verdict: Verdict, facts: Facts, *, waited_s: float, live: bool) -> VerdictLevel:
    """Stall: the laggard will not come by itself. Slow: it works. Waiting: not sure enough yet to say anything."""
    if not verdict.findings or verdict.status is Status.HEALTHY:
        return VerdictLevel.NOTHING
    first = verdict.findings[0]
    if first.severity is Severity.NOTE:
        return VerdictLevel.NOTHING
    if not live:
        return VerdictLevel.CRASH
    if first.severity is Severity.SLOWS:
        return VerdictLevel.SLOW
    if first.cause is Cause.RENDEZVOUS and first.ranks and waited_s < ARRIVAL_S:
        return VerdictLevel.WAITING
    if first.cause is Cause.UNKNOWN:
        return (
            VerdictLevel.STALL
            if waited_s >= (DOUBT_S / 2 if facts.all_joined_stalls else 2 * DOUBT_S)
            else VerdictLevel.WAITING
        )
    if first.certainty is Certainty.POSSIBLE and waited_s < DOUBT_S:
        return VerdictLevel.WAITING
    return VerdictLevel.STALL


def _with_times(verdict: Verdict, request: EvidenceRequest, limit_at: float | None) -> Verdict:
    now_s = time.time()
    since_s = request.stalled_since_s
    known = verdict.stalled_since
    if since_s is not None and known is None:
        known = datetime.fromtimestamp(since_s, tz=timezone.utc).isoformat(timespec="seconds")
    noticed = request.noticed_after_s
    if noticed is None and since_s is not None and request.live:
        noticed = round(now_s - since_s, 1)
    return replace(
        verdict,
        stalled_since=known if request.live else verdict.stalled_since,
        noticed_after_s=noticed,
        killed_in_s=round(max(0.0, limit_at - now_s), 1) if limit_at is not None and request.live else None,
    )


def _write(verdict: Verdict, facts: Facts, folder: Path, width: int, lang: str) -> str:
    """Verdict and report take their places at once, and with them the evidence of this sample."""
    text = to_text(verdict, facts, lang=lang, width=width)
    report = folder / ".unhang" / "report.html"
    with suppress(OSError):
        private_files.write(report, b"")
        write_html(verdict, facts, report, lang=lang)
        report.chmod(0o600)
    own = RunFolder(folder)
    private_files.write_atomically(own.localized_verdict, to_json(verdict, lang=lang).encode())
    private_files.write_atomically(own.verdict, to_json(verdict).encode())
    with suppress(OSError):
        report.replace(folder / "report.html")
    kept_evidence.discard(folder)
    return text


def _may_recover(first: Finding, facts: Facts) -> bool:
    """The laggards moved while they were sampled; who has not come to the rendezvous may be on its way; and work that
    only stands may wait for something slow, until the limit of the others is near."""
    if first.cause is Cause.RENDEZVOUS:
        return True
    looked = live_manifest(facts)
    if first.cause in causes_that("work") and looked is not None and not is_limit_near(looked, facts):
        return True
    return any(facts.ranks[rank].moving for rank in first.ranks if rank in facts.ranks)


def _summary(
    request: EvidenceRequest,
    verdict: Verdict,
    facts: Facts,
    level: VerdictLevel,
    limit_at: float | None,
    *,
    needs_lines: bool,
) -> VerdictSummary:
    first: Finding | None = verdict.findings[0] if verdict.findings else None
    where = first.where if first is not None else None
    return VerdictSummary(
        number=request.number,
        level=level.value,
        status=verdict.status.value,
        cause=first.cause.value if first is not None else "",
        certainty=first.certainty.value if first is not None else "",
        ranks=first.ranks if first is not None else (),
        where=f"{where.file}:{where.line}" if where is not None else "",
        sentence=str(first.summary) if first is not None else "",
        sentence_parts=text_to_json(first.summary) if first is not None else None,
        stalled_since_s=request.stalled_since_s,
        limit_at_s=limit_at,
        gives_up=verdict.gives_up,
        noticed_after_s=verdict.noticed_after_s,
        settled=first is not None and first.certainty is Certainty.CERTAIN and first.waiter_where is not None,
        laggard_works=first is not None and first.cause in causes_that("work"),
        needs_lines=needs_lines,
        moving=first is not None and _may_recover(first, facts),
    )
