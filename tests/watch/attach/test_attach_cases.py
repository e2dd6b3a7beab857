"""Every case of the lab as a stranger's job, started without unhang: what stacks, ``/proc`` and logs alone can tell.

Left out are jobs that end by themselves before anybody could attach. Where stacks cannot tell the cause, the verdict
must not be sure of another one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import unhang
from tests.watch.attach.plain_jobs import plain_job
from tests.watch.attach.stranger import stranger
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Certainty, Status, Verdict
from unhang.knowledge.reasoning_rows import causes_that
from unhang.watch.process_state.stack_collection import sample_kernel
from unhang_lab.expectation import find_mistakes
from unhang_lab.lab_case import CASES, CASES_FOLDER, LabCase

pytestmark = [pytest.mark.job, pytest.mark.live, pytest.mark.timeout(240)]

ENDS_BY_ITSELF = {"killed", "healthy", "timeout-too-short", "late-to-init"}
"""torchrun ends the others of a killed rank; a limit of 4 s; ranks that never join have no threads to wait for here."""
OTHER_SIDE = {"group-in-branch"}
"""Named from the side of those who skip the call; the branch, and so the cause, is the same."""
FALLS = (Cause.COLLECTIVE_MISMATCH,)
"""Gloo aborts a mismatch in size within milliseconds."""
NOT_FROM_STACKS = {
    "teardown": (Cause.UNKNOWN, Certainty.POSSIBLE),
    "different-dtype-same-bytes": (Cause.UNEVEN_DATA, Certainty.LIKELY),
}
"""All stand on one line of a loop over groups; the dtype of a call that is over. What is said instead, and how sure."""
CAN_BE_ATTACHED_TO = [
    case
    for case in CASES
    if case.name not in ENDS_BY_ITSELF and not ("crash" in case.expected.status and case.expected.cause in FALLS)
]


@pytest.mark.parametrize("case", CAN_BE_ATTACHED_TO, ids=[case.name for case in CAN_BE_ATTACHED_TO])
def test_a_case_that_a_stranger_started(case: LabCase, tmp_path_factory: pytest.TempPathFactory) -> None:
    # not tmp_path: its name would carry the case's name into every path of the evidence
    folder = tmp_path_factory.mktemp("job")
    options = ("--for", "6") if case.moment == "moving" else ()
    with stranger(case, folder / "run") as job:
        for number in range(2):
            seen = folder / f"seen{number}"
            done = unhang("attach", str(job.launcher.pid), "--dir", seen, "--format", "json", *options)
            assert job.launcher.poll() is None, "the job ended while it was looked at"
            verdict = diagnose(build_facts(read_evidence([str(seen)])))
            wrong = _wrong(case, seen, verdict)
            if not wrong:
                break  # work that moves may be met between two of its rounds: once more then

    told = json.loads(done.stdout)
    first = verdict.findings[0] if verdict.findings else None
    assert (told["status"], bool(told["findings"])) == (verdict.status.value, first is not None)
    assert done.returncode == (1 if first is not None else 0)
    if first is not None:
        again = (first.cause.value, first.certainty.value, list(first.ranks))
        assert tuple(told["findings"][0][key] for key in ("cause", "certainty", "ranks")) == again
    assert wrong == [], seen


def _wrong(case: LabCase, seen: Path, verdict: Verdict) -> list[str]:
    if case.name in NOT_FROM_STACKS:
        cause, certainty = NOT_FROM_STACKS[case.name]
        first = verdict.findings[0]
        right = (verdict.status, first.cause, first.certainty) == (Status.HANG, cause, certainty)
        return [] if right else [f"{verdict.status.value}, {first.cause.value}, {first.certainty.value}"]
    if case.name in OTHER_SIDE:
        return [] if verdict.findings[0].cause is case.expected.cause else [verdict.findings[0].cause.value]
    slow_is_right = case.expected.cause in causes_that("work") and verdict.status is Status.SLOW
    return [text for text in find_mistakes(case, seen, verdict) if not (slow_is_right and "status" in text)]


def test_eight_ranks_are_answered_and_stay_as_they_were(tmp_path: Path) -> None:
    """How soon, `python -m benchmarks live-jobs --to attach` measures."""
    with plain_job(tmp_path, CASES_FOLDER / "missing_rank.py", ranks=8) as job:
        job.wait_until_printed("step 11")
        job.wait_until_waiting(8)
        before = {rank.pid: sample_kernel(rank.pid).state for rank in job.ranks}
        done = unhang("attach", str(job.launcher.pid), "--dir", tmp_path / "seen", "--format", "json")

        assert {rank.pid: sample_kernel(rank.pid).state for rank in job.ranks} == before
    assert json.loads(done.stdout)["findings"][0]["ranks"] == [7]
