"""What a process died of stands elsewhere: above a number that was passed on, not in a list of possible reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_better_than_peers import verdict

FRAMES = """Traceback (most recent call last):
  File "/workspace/vllm/v1/executor/multiproc_executor.py", line 437, in __init__
    self.worker.init_device()
  File "/workspace/vllm_ascend/distributed/mooncake/transfer_engine.py", line 26, in get_global_te
    raise RuntimeError(
"""
PASSED_ON = "RuntimeError: TransferEngine initialization failed with ret_value: -1"
TAKEN = "[ERROR] HCCP(570,):2025-12-04-14:46:07.911.240 [rs_socket.c:1193]tid:570 : bind failed, port:16666, ret:-98"
HCCL = "RuntimeError: createHCCLComm HCCL function error: hcclCommInitRootInfoConfig(numRanks), error code is 19"
DOWN = "EJ0002: [PID: 38011] 2025-07-15-12:45:31.202.787 The network port is down."


@pytest.mark.parametrize(
    ("lines", "cause", "quoted"),
    [
        ((TAKEN, FRAMES + PASSED_ON), "rendezvous", "bind failed"),
        ((FRAMES + PASSED_ON,), "rank-crashed", "ret_value: -1"),
        ((FRAMES + HCCL, DOWN), "network-fault", "port is down"),
    ],
    ids=["a line says what failed", "none does", "the code of a library"],
)
def test_a_number_that_was_passed_on_leaves_the_lead(
    lines: tuple[str, ...], cause: str, quoted: str, tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    prefixed = "\n".join(lines).splitlines()
    log.write_text("\n".join(f"(Worker_TP0 pid=570) {line}" for line in prefixed) + "\n")

    first = verdict(log)[1]["findings"][0]

    assert first["cause"] == cause
    assert quoted in first["evidence"][0]["text"]


WATCHDOG = (
    "[rank{rank}]:[E316 17:07:31.04{rank}268748 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={at}, OpType={op}, NumelIn=1, NumelOut=1, Timeout(ms)=3600000) ran for 3600010 "
    "milliseconds before timing out.\n"
    "[rank{rank}]:[E316 17:07:31.04{rank}445308 ProcessGroupNCCL.cpp:1785] [PG ID {id} PG GUID {guid} Rank {rank}]  "
    "failure detected by watchdog at work sequence id: {at} PG status: last enqueued work: {at}, last completed work: "
    "-1\n"
)
ACTOR = """Traceback (most recent call last):
  File "/job/train_ppo_ray.py", line 181, in train
    ray.get(refs)
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: ActorModelRayActor
\tpid: 4157
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker \
unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process \
is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed \
unexpectedly due to SIGSEGV or other unexpected errors.
"""


def watchdog(rank: int, group: str) -> str:
    at, op, number, guid = (3, "ALLREDUCE", 0, "0(default_pg)") if group == "0" else (1, "BROADCAST", 9, group)
    return WATCHDOG.format(rank=rank, at=at, op=op, id=number, guid=guid)


@pytest.mark.parametrize(
    ("groups", "cause"),
    [
        (("0", "11", "0", "12"), "deadlock-order"),
        (("11", "11", "12", "12"), "unknown"),
        (("0", "0", "0", "0"), "unknown"),
    ],
    ids=["each group lacks somebody", "two whole groups", "all in one"],
)
def test_ranks_that_timed_out_apart_wait_for_each_other(groups: tuple[str, ...], cause: str, tmp_path: Path) -> None:
    """What Ray raises for the workers that the watchdogs then ended, and the reasons it lists, are no cause."""
    log = tmp_path / "job.log"
    log.write_text("".join(watchdog(rank, group) for rank, group in enumerate(groups)) + ACTOR)

    first = verdict(log)[1]["findings"][0]

    assert (first["cause"], first["certainty"] == "certain") == (cause, False)
