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
from unhang.facts.laggard.laggards import laggards_doing
from unhang.facts.laggard.own_work import AsleepAtLine
from unhang.facts.model import Facts
from unhang.facts.waiting.timeouts import guard_limit, is_limit_near, limit_at_s, live_manifest
from unhang.findings import Cause, Certainty, Finding, Severity, Status, Verdict
from unhang.knowledge.reasoning_rows import causes_that
from unhang.report.html.page import write_html
from unhang.report.text import to_text
from unhang.report.text_serialization import text_to_json
from unhang.report.verdict_document import to_json
from unhang.watch import private_files
from unhang.watch.job.wait_detection import STARTUP_FACTOR
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
    if request.said is not None and _is_weaker(verdict, request.said, live=request.live):
        kept_evidence.restore(folder)
        raise SamplingInterrupted("this sample shows less than an earlier one of the same wait")
    limit_at, gives_up = _first_limit(facts, request.stalled_since_s)
    level = level_of(verdict, facts, request)
    moving = bool(verdict.findings) and _may_recover(verdict.findings[0], facts)
    needs_lines = request.live and not request.with_stacks and bool(facts.mismatches) and not moving
    if needs_lines and level is VerdictLevel.STALL:
        level = VerdictLevel.WAITING
    write_manifest(folder, manifest)
    verdict = replace(_with_times(verdict, request, limit_at), gives_up=gives_up)
    text = _write(verdict, facts, folder, request)
    if request.live:
        kept_evidence.save_judged(folder)
    return _summary(request, verdict, level, limit_at, needs_lines=needs_lines, moving=moving), text


def _first_limit(facts: Facts, stalled_since_s: float | None) -> tuple[float | None, str]:
    """When the first limit of those who wait passes (seconds since the epoch), and the guard whose it is, if any."""
    at_s, guard = limit_at_s(facts, stalled_since_s), guard_limit(facts)
    if guard is not None and (at_s is None or guard[0] < at_s):
        return guard
    return at_s, ""


def _is_weaker(verdict: Verdict, said: VerdictSummary, *, live: bool) -> bool:
    """Whether ``verdict`` tells less than what was printed before it; the end of a job has to name a cause too."""
    first = verdict.findings[0] if verdict.findings and verdict.status is not Status.HEALTHY else None
    now = _strength(first.cause.value, first.certainty.value) if first is not None else (False, -1)
    return now < _strength(said.cause, said.certainty) or not (live or now[0])


def _strength(cause: str, certainty: str) -> tuple[bool, int]:
    """Whether a cause is named, then how certain it is."""
    return cause not in ("", Cause.UNKNOWN.value), Certainty(certainty).order


def level_of(verdict: Verdict, facts: Facts, request: EvidenceRequest) -> VerdictLevel:
    """What the watcher does with ``verdict`` at this moment of the wait."""
    if not verdict.findings or verdict.status is Status.HEALTHY:
        return VerdictLevel.NOTHING
    first, waited_s = verdict.findings[0], request.waited_s
    if first.severity is Severity.NOTE:
        return VerdictLevel.NOTHING
    if not request.live:
        return VerdictLevel.CRASH
    if first.severity is Severity.SLOWS or (_is_borne(first, facts) and waited_s < request.borne_s):
        return VerdictLevel.SLOW
    if first.cause is Cause.RENDEZVOUS and first.ranks and waited_s < ARRIVAL_S:
        return VerdictLevel.WAITING
    doubt_s = 0.0
    if first.cause is Cause.UNKNOWN:
        doubt_s = (DOUBT_S / 2 if facts.all_joined_stalls else 2 * DOUBT_S) * (
            STARTUP_FACTOR if request.before_steps else 1
        )
    elif first.certainty is Certainty.POSSIBLE:
        doubt_s = DOUBT_S
    return VerdictLevel.WAITING if waited_s < doubt_s else VerdictLevel.STALL


def _is_borne(first: Finding, facts: Facts) -> bool:
    """A rank may still come, until the limit of the others is near: it works, or waits for something slow."""
    looked = live_manifest(facts)
    if looked is None or is_limit_near(looked, facts):
        return False
    return first.cause in causes_that("work") or any(
        set(first.ranks) <= set(at.stall.laggards) for at, _ in laggards_doing(facts, AsleepAtLine)
    )


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


def _write(verdict: Verdict, facts: Facts, folder: Path, request: EvidenceRequest) -> str:
    """Verdict and report, and with them the evidence of this sample; of a job that lives they stand in their places
    once they are said."""
    text = to_text(verdict, facts, lang=request.lang, width=request.width)
    unsaid = kept_evidence.unsaid(folder)
    with suppress(OSError):
        private_files.write(unsaid / "report.html", b"")
        write_html(verdict, facts, unsaid / "report.html", lang=request.lang)
        (unsaid / "report.html").chmod(0o600)
    private_files.write_atomically(RunFolder(folder).localized_verdict, to_json(verdict, lang=request.lang).encode())
    private_files.write_atomically(unsaid / "verdict.json", to_json(verdict).encode())
    kept_evidence.discard(folder)
    if not request.live:
        kept_evidence.publish(folder)
    return text


def _may_recover(first: Finding, facts: Facts) -> bool:
    """The laggards moved while they were sampled, may be on their way to the rendezvous, or are borne."""
    if first.cause is Cause.RENDEZVOUS or (first.cause in causes_that("work") and _is_borne(first, facts)):
        return True
    return any(facts.ranks[rank].moving for rank in first.ranks if rank in facts.ranks)


def _summary(
    request: EvidenceRequest,
    verdict: Verdict,
    level: VerdictLevel,
    limit_at: float | None,
    *,
    needs_lines: bool,
    moving: bool,
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
        moving=moving,
    )
