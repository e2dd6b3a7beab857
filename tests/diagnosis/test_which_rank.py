"""Which rank it was, where the line that tells of the failure does not say it: from facts, never from the words."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Finding, Status, Verdict

RAISED = """Traceback (most recent call last):
  File "/srv/train.py", line 12, in main
    vae.to(device)
RuntimeError: {error}
"""
ONE_MACHINE = """WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 200 closing signal SIGTERM
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 201) of binary: /bin/python
"""
TABLE = """Root Cause (first observed failure):
[0]:
  time      : 2024-03-16_15:58:29
  host      : pod-0
  rank      : 6 (local_rank: 6)
  exitcode  : 1 (pid: 203)
"""
ECC = RAISED.format(error="CUDA error: uncorrectable ECC error encountered")
UNUSED = RAISED.format(error="Expected to have finished reduction in the prior iteration before starting a new one.")
IB = "n7:81{rank}:86{rank} [0] transport/net_ib.cu:80 NCCL WARN NET/IB : Got async event : local catastrophic error\n"
LATE = "/job:jax_worker/replica:0/task:{rank}\n"


def verdict_of(text: str, folder: Path) -> Verdict:
    path = folder / "job.log"
    path.write_text(text, encoding="utf-8")
    return diagnose(build_facts(read_evidence([str(path)])))


def lead(text: str, folder: Path) -> Finding:
    return verdict_of(text, folder).findings[0]


@pytest.mark.parametrize(
    ("text", "cause", "ranks"),
    [
        pytest.param(f"num_processes: 8\n{ECC}{TABLE}", Cause.GPU_HARDWARE, (6,), id="the launcher names one"),
        pytest.param(f"world_size=2\n{ECC}{ONE_MACHINE}", Cause.GPU_HARDWARE, (1,), id="a launcher that holds all"),
        pytest.param(f"world_size=16\n{ECC}{ONE_MACHINE}", Cause.GPU_HARDWARE, (), id="one launcher of several"),
        pytest.param(
            f"world_size=4\n{UNUSED}Parameter indices which did not receive grad for rank 3: 282 283\n",
            Cause.RANK_CONDITIONAL_COLLECTIVE,
            (3,),
            id="its message goes on",
        ),
        pytest.param(
            "".join(f"[1,{rank}]<stdout>:epoch 1\n" for rank in range(8))
            + "".join(f"[1,{rank}]<stdout>:{IB.format(rank=rank)}" for rank in (4, 5, 6, 7)),
            Cause.NETWORK_FAULT,
            (4, 5, 6, 7),
            id="all who say it",
        ),
        pytest.param(
            "[rank=0] RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n[rank=1] shut down\n",
            Cause.GPU_OOM,
            (0,),
            id="a logger's field",
        ),
    ],
)
def test_the_rank_comes_from_whoever_says_it(text: str, cause: Cause, ranks: tuple[int, ...], tmp_path: Path) -> None:
    first = lead(text, tmp_path)
    assert (first.cause, first.ranks) == (cause, ranks)


def test_ranks_that_jax_names_as_missing_are_the_ranks(tmp_path: Path) -> None:
    raised = RAISED.format(error="").replace(
        "RuntimeError: ", "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Timed out task names:"
    )
    assert lead(raised + LATE.format(rank=3) + LATE.format(rank=0), tmp_path).ranks == (0, 3)
    assert lead(raised + "".join(LATE.format(rank=rank) for rank in (2, 1, 3)), tmp_path).ranks == (1, 2, 3)


def test_who_waited_in_vain_is_not_the_one(tmp_path: Path) -> None:
    """A wait that only one process tells of before its launcher ends the job: that process is a victim."""
    waited = RAISED.format(error="Socket Timeout")
    assert lead(f"world_size=2\n{waited}{ONE_MACHINE}", tmp_path).ranks != (1,)


def test_a_launchers_kill_behind_an_exception_is_no_cause(tmp_path: Path) -> None:
    labelled = "".join(
        f"({node}) {line}\n"
        for node in (0, 1)
        for line in ("loading", *RAISED.format(error="CUDA error: unspecified launch failure").splitlines())
    )
    spoken = "".join(f"barrier timeout (60s): rank={rank}, target=8\n" for rank in range(6))
    verdict = verdict_of(f"{spoken}{labelled}srun: error: n06: task 1: Killed\n", tmp_path)
    assert "SIGKILL" not in str(verdict.findings[0].summary)
    assert verdict.findings[0].ranks == ()
    assert verdict.status is Status.CRASH
