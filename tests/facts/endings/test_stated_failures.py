"""Failures said in general words: which leads, which points elsewhere, and what the job went on after."""

from __future__ import annotations

from io import BytesIO

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.logs import read_log
from unhang.facts.build import build_facts
from unhang.facts.endings.stated_failures import StatedFailure, leading_failures, stated_failures
from unhang.findings import Cause


def leading(log: str) -> tuple[StatedFailure, ...]:
    return leading_failures(build_facts(EvidenceSet(logs=[read_log(BytesIO(log.encode()), source="job.log")])))


def every(log: str) -> tuple[StatedFailure, ...]:
    return stated_failures(build_facts(EvidenceSet(logs=[read_log(BytesIO(log.encode()), source="job.log")])))


def raised(error: str) -> str:
    lines = ("Traceback (most recent call last):", '  File "/app/a.py", line 3, in <module>', error)
    return "".join(f"[rank2]: {line}\n" for line in lines)


def test_an_exception_that_names_its_cause_leads_with_rank_and_place() -> None:
    (first,) = leading(raised("MyError: dial 10.0.0.3: No route to host"))

    assert (first.cause, first.rank, first.raised) == (Cause.NETWORK_CONFIG, 2, True)
    assert first.evidence.source.line is not None


def test_an_error_of_the_program_is_left_to_rank_crashed() -> None:
    assert leading(raised("PermissionError: [Errno 13] Permission denied: '/data/a'")) == ()
    assert leading(raised("KeyError: 'label'")) == ()


def test_what_only_points_elsewhere_does_not_lead() -> None:
    log = "ERROR host n1: No route to host\nERROR engine: initialization failed. See root cause above.\n"

    assert [f.evidence.source.line for f in leading(log)] == [1]
    assert [f.elsewhere for f in every(log)] == [False, True]
    assert leading("ERROR engine: initialization failed. See root cause above.\n") == ()


def test_a_warning_hints_only_where_the_job_failed() -> None:
    warning = "WARNING net: no route to host 10.0.0.3\n"
    (first,) = leading(warning + raised("KeyError: 'x'"))

    assert leading(warning) == ()
    assert not first.names_cause


def test_lines_for_information_say_nothing() -> None:
    assert every("n1:1:2 [0] NCCL INFO NET/Plugin: libnccl-net.so: cannot open shared object file\n") == ()


def test_what_steps_were_counted_after_is_no_failure() -> None:
    line = "ERROR net: No route to host\n"
    steps = "".join(f"step {step}/900 loss 2.1\n" for step in range(1, 60))

    assert leading(steps + line + steps.replace("step 1/", "step 61/")) == ()
    assert len(leading(steps + line)) == 1


def test_what_is_said_after_ranks_waited_in_vain_names_nothing() -> None:
    timeout = (
        "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    )
    line = "ERROR net: No route to host\n"

    assert leading(timeout + line) == ()
    assert len(leading(line + timeout)) == 1
