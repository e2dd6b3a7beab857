"""What unhang printed into the job's output is a conclusion: read back, it proves nothing."""

from __future__ import annotations

import io

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.logs import read_log
from unhang.evidence.logs.content.unhang_verdicts import SEPARATOR, without_own_verdicts
from unhang.facts.build import build_facts

JOB = """step 40 loss 0.31
step 41 loss 0.30
"""
VERDICT = f"""
{SEPARATOR}
HANG  Rank 1 called another operation than the others at position 660
collective-mismatch · certain · rank 1 · job.py:90

Rank 1 is here
  job.py:90  in main

re-read it: unhang diagnose /tmp/run
{SEPARATOR}
unhang: the job goes on; nothing was done to it
unhang: found: collective-mismatch; see /tmp/run
"""
ERROR = """Traceback (most recent call last):
  File "job.py", line 3, in main
ValueError: bad sample
"""


def causes(text: str) -> list[str]:
    log = read_log(io.BytesIO(text.encode()), source="job.log")
    return [finding.cause.value for finding in diagnose(build_facts(EvidenceSet(logs=[log]))).findings]


def test_a_printed_verdict_changes_nothing() -> None:
    assert causes(JOB + VERDICT + ERROR) == causes(JOB + ERROR) == ["rank-crashed"]


def test_lines_behind_it_keep_their_numbers() -> None:
    (traceback,) = read_log(io.BytesIO((JOB + VERDICT + ERROR).encode()), source="job.log").tracebacks

    assert traceback.source.line == (JOB + VERDICT).count("\n") + 1


def test_a_rule_that_the_program_drew_hides_nothing() -> None:
    drawn = f"{SEPARATOR}\n{ERROR}{SEPARATOR}\n".encode()

    assert without_own_verdicts(drawn) == drawn
