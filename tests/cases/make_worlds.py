"""Cases of jobs of several worlds: trainers, engines and what drives them, each with processes of its own."""

# ruff: noqa: E501 - log lines are as long as they are

from __future__ import annotations

from tests.case_writer import write_logs

WATCHDOG = """\
(PolicyWorker pid={pid}) [rank{rank}]:[E1009 08:53:{second:02}.123456789 ProcessGroupNCCL.cpp:688] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=BROADCAST, NumelIn={size}, NumelOut={size}, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
(PolicyWorker pid={pid}) [rank{rank}]:[E1009 08:53:{second:02}.223456789 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 41 PG status: last enqueued work: 41, last completed work: 40
"""
RAYLET = "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker.\n"
ENGINE_STEP = "(EngineCore_DP{dp} pid={pid}) INFO 10-09 08:41:{second:02} [loggers.py:271] Engine 00{dp}: Avg generation throughput: {speed}.0 tokens/s, Running: {running} reqs, Waiting: 0 reqs\n"
WORKER = "(Worker_DP{dp}_TP{tp} pid={pid}) INFO 10-09 08:40:02 [gpu_model_runner.py:2338] Model loading took 15.2 GiB\n"
REDUCE = """\
(Worker_DP0_TP{tp} pid={pid}) [rank{rank}]:[E1009 08:53:{second:02}.123456789 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7101, OpType=_REDUCE_SCATTER_BASE, NumelIn=6144, NumelOut=1536, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
(Worker_DP0_TP{tp} pid={pid}) [rank{rank}]:[E1009 08:53:{second:02}.223456789 ProcessGroupNCCL.cpp:2241] [PG ID 5 PG GUID 29(ep) Rank {rank}]  failure detected by watchdog at work sequence id: 7101 PG status: last enqueued work: 7101, last completed work: 7100
"""


def make() -> None:
    """Write all of them."""
    _died_after_the_limit()
    _engine_failed_beside_trainers()
    _engine_ranks_without_a_step()
    _samples_in_a_log()


def _died_after_the_limit() -> None:
    log = "".join(f"(PolicyWorker pid={700 + rank}) Rank {rank} loads the model\n" for rank in range(4))
    log += "".join(
        WATCHDOG.format(pid=700 + rank, rank=rank, second=20 + rank, size=96 if rank == 3 else 64) for rank in range(4)
    )
    log += RAYLET + "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    write_logs(
        "collective-mismatch/hit_log_ray_lost_a_worker_that_had_given_up",
        {"driver.log": log},
        {"cause": "collective-mismatch", "not_cause": "rank-crashed", "ranks": [3]},
    )


def _engine_failed_beside_trainers() -> None:
    trainer = "".join(f"(ActorModelRayActor pid={800 + r}) [rank{r}]: step 12 loss 0.71\n" for r in range(2))
    failed = """\
(LLMRayActor pid=910) Traceback (most recent call last):
(LLMRayActor pid=910)   File "/opt/venv/lib/python3.11/site-packages/vllm/device_allocator/cumem.py", line 180, in wake_up
(LLMRayActor pid=910)     create_and_map(handle)
(LLMRayActor pid=910) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.02 GiB is free.
"""
    driver = """\
Traceback (most recent call last):
  File "/workspace/job/train_ppo.py", line 40, in main
    ray.get(refs)
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: LLMRayActor
\tpid: 910
"""
    write_logs(
        "gpu-oom/hit_log_an_engine_beside_trainers",
        {"driver.log": trainer + "(LLMRayActor pid=910) wake_up\n" + failed + driver},
        {"cause": "gpu-oom", "not_cause": "rank-crashed"},
    )


def _engine_ranks_without_a_step() -> None:
    pids = {(dp, tp): 500 + 10 * dp + tp for dp in range(2) for tp in range(2)}
    log = "".join(WORKER.format(dp=dp, tp=tp, pid=pid) for (dp, tp), pid in pids.items())
    log += ENGINE_STEP.format(dp=0, pid=490, second=11, speed=48, running=2)
    log += ENGINE_STEP.format(dp=1, pid=491, second=11, speed=0, running=0)
    stands = {
        0: "    synchronize (torch/cuda/streams.py:231)\n    reduce_scatter (vllm/distributed/device_communicators/pynccl.py:288)\n    execute_model (vllm/v1/worker/gpu_model_runner.py:4077)\n    worker_busy_loop (vllm/v1/executor/multiproc_executor.py:983)\n",
        1: "    poll (zmq/sugar/poll.py:106)\n    dequeue (vllm/distributed/device_communicators/shm_broadcast.py:794)\n    worker_busy_loop (vllm/v1/executor/multiproc_executor.py:983)\n",
    }
    for (dp, tp), pid in pids.items():
        log += f'Process {pid}: VLLM::Worker_DP{dp}_TP{tp}\nPython v3.12.11 (/usr/bin/python3.12)\n\nThread {pid} (idle): "MainThread"\n{stands[dp]}\n'
    log += "".join(REDUCE.format(tp=tp, pid=pids[0, tp], rank=tp, second=20 + tp) for tp in range(2))
    write_logs(
        "rank-conditional-collective/hit_log_engine_ranks_without_a_step",
        {"serve.log": log},
        {"cause": "rank-conditional-collective", "ranks": [2, 3], "certainty": "likely"},
    )


def _samples_in_a_log() -> None:
    log = "".join(f"[2026-10-09 08:40:{10 + r} TP{r}] Load weight end. avail mem=73.23 GB\n" for r in range(4))
    log += "$ py-spy dump --pid 600\nProcess 600: sglang::scheduler_TP0\nPython v3.12.3 (/usr/bin/python3.12)\n\n"
    log += 'Thread 600 (idle): "MainThread"\n    barrier (torch/distributed/distributed_c10d.py:4881)\n    graph_capture (sglang/srt/model_executor/cuda_graph_runner.py:148)\n'
    log += "$ dmesg -T | tail -2\n[Fri Oct  9 08:40:53 2026] Memory cgroup out of memory: Killed process 602 (sglang::schedul) total-vm:98114728kB, anon-rss:14902260kB, file-rss:1284004kB, shmem-rss:19312kB, UID:0 pgtables:37192kB oom_score_adj:0\n"
    write_logs(
        "host-memory/hit_log_with_samples_and_the_kernels_word_in_it",
        {"terminal.log": log},
        {"cause": "host-memory", "certainty_at_least": "likely"},
    )
