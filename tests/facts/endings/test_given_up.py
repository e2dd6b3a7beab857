"""A monitor that ended a process because it did not answer: busy, or dead."""

from __future__ import annotations

from pathlib import Path

from unhang.diagnosis.jobs import diagnose_jobs
from unhang.evidence.inputs import read_evidence
from unhang.findings import Cause, Certainty, Verdict

REPLICA = "Replica(id='r1', deployment='LLM', app='default')"
CHECK = (
    "(ServeController pid=1) WARNING 2026-10-09 12:00:{at:02},000 controller 1 -- Didn't receive health check response "
    f"for replica {REPLICA} after 10.0s, marking it unhealthy.\n"
)
KILLED = "(ProxyActor pid=3) ray.exceptions.ActorDiedError: The actor is dead because it was killed by `ray.kill`.\n"
WORK = "(ServeReplica:default:LLM pid=7) INFO 2026-10-09 12:00:{at:02},000 generated 4096 tokens\n"
DIED = "(ProxyActor pid=3) ERROR 2026-10-09 12:00:41,000 The actor died unexpectedly before finishing this task.\n"


def verdict_on(folder: Path, text: str) -> Verdict:
    (folder / "serve.log").write_text(text)
    (job,) = diagnose_jobs(read_evidence([str(folder)]))
    return job.verdict


def test_a_busy_process_was_given_too_little_time(tmp_path: Path) -> None:
    busy = "".join(WORK.format(at=at) + CHECK.format(at=at + 1) for at in (10, 20, 30))

    lead = verdict_on(tmp_path, busy + KILLED).findings[0]

    assert (lead.cause, lead.certainty) == (Cause.TIMEOUT_TOO_SHORT, Certainty.LIKELY)


def test_of_a_silent_one_it_is_only_possible(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, CHECK.format(at=30) + KILLED)

    assert all(f.certainty is Certainty.POSSIBLE for f in verdict.findings if f.cause is Cause.TIMEOUT_TOO_SHORT)


def test_a_process_that_died_by_itself_was_not_given_up(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, WORK.format(at=10) + CHECK.format(at=20) + DIED)

    assert Cause.TIMEOUT_TOO_SHORT not in {finding.cause for finding in verdict.findings}
