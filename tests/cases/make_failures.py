"""Cases in which a process failed, or only seems to have: exceptions, signals, memory, limits that had passed."""

# ruff: noqa: E501 - log lines are as long as they are

from __future__ import annotations

from tests.case_writer import Job, write_logs

PROGRAM = """
import torch
import torch.distributed as dist


def main():
    for batch in make_loader():
        try:
            loss = step(batch)
        except torch.OutOfMemoryError:
            loss = retry(batch)
        dist.all_reduce(loss)


main()
"""
HANDLED = """
import torch.distributed as dist


def main():
    for batch in make_loader():
        try:
            loss = step(batch)
        except ValueError as error:
            report(error)
            continue
        dist.all_reduce(loss)


def report(error):
    send(error)


main()
"""
AT, TRAIN, ELASTIC = "dist.all_reduce(loss)", "/workspace/job/train.py", "torch/distributed/elastic/multiprocessing"
TIMED_OUT = """\
[rank{rank}]:[E1009 08:53:{second:02}.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=12, NumelOut=12, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
"""
ABORTED = """\
[rank{rank}]:[E1009 08:53:{second:02}.223456789 ProcessGroupNCCL.cpp:756] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.
terminate called after throwing an instance of 'c10::DistBackendError'
"""
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.02 GiB is free."


def make() -> None:
    """Write all of them."""
    _crashed()
    _crashed_look_alikes()
    _signals()
    _gpu_memory()
    _limits()


def raised(rank: int, last: str, *, line: int = 8, function: str = "main", prefix: bool = True) -> str:
    """A traceback of ``rank`` as torch prints it."""
    text = f'Traceback (most recent call last):\n  File "{TRAIN}", line 15, in <module>\n    main()\n'
    text += f'  File "{TRAIN}", line {line}, in {function}\n    loss = step(batch)\n{last}\n'
    return "".join(f"[rank{rank}]: {row}\n" for row in text.splitlines()) if prefix else text


def torchrun(*exits: tuple[int, int], victims: tuple[int, ...] = ()) -> str:
    """torchrun's closing words: (rank, exit code), the root first, and whom it ended itself."""
    rows = [
        f"W1009 08:53:27.963000 4000 {ELASTIC}/api.py:900] Sending process {4000 + v} closing signal SIGTERM"
        for v in victims
    ]
    root = exits[0]
    rows.append(
        f"E1009 08:53:27.970000 4000 {ELASTIC}/api.py:874] failed (exitcode: {root[1]}) local_rank: {root[0]} (pid: {4000 + root[0]}) of binary: /usr/bin/python"
    )
    rows += [
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 270, in launch_agent',
    ]
    rows += [
        "    raise ChildFailedError(",
        f"{'torch.distributed.elastic.multiprocessing.errors'}.ChildFailedError: ",
        "=" * 60,
        "train.py FAILED",
        "-" * 60,
    ]
    for number, (rank, code) in enumerate((*exits[1:], root), 1):
        last = number == len(exits)
        rows += [
            "Root Cause (first observed failure):" if last else "Failures:" if number == 1 else "",
            f"[{0 if last else number}]:",
        ]
        rows += [
            f"  time      : 2026-10-09_08:53:{27 + (0 if last else number)}",
            "  host      : node-a",
            f"  rank      : {rank} (local_rank: {rank})",
        ]
        rows += [
            f"  exitcode  : {code} (pid: {4000 + rank})",
            "  error_file: <N/A>",
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        ]
    return "\n".join(row for row in (*rows, "=" * 60) if row) + "\n"


def _steps(upto: int = 40) -> str:
    return "".join(f"step {step} loss {3 - step / 100:.3f}\n" for step in range(upto - 5, upto + 1))


def _bar(label: str = "train") -> str:
    return "".join(
        f"{label}: {n // 4}%|####      | {n}/400 [00:{n // 10:02}<00:30, 10.0it/s]\n" for n in range(20, 300, 20)
    )


def _crashed() -> None:
    missing = "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-0007.tar'"
    closed = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:3971"
    found = {
        "cause": "rank-crashed",
        "ranks": [2],
        "where": {"file": "train.py", "line": 8, "function": "main"},
        "exit_code": 1,
    }
    log = _steps() + raised(0, closed, line=12) + raised(2, missing) + raised(1, closed, line=12)
    write_logs(
        "rank-crashed/hit_others_are_echoes",
        {"job.log": log + torchrun((2, 1), (0, 1), (1, 1), victims=(3,))},
        {**found, "certainty_at_least": "likely"},
    )
    waits = "".join(TIMED_OUT.format(rank=rank, second=20 + rank) for rank in (0, 1, 3))
    write_logs(
        "rank-crashed/hit_exception_then_timeouts",
        {
            f"rank{rank}.log": _steps()
            + (raised(2, missing) if rank == 2 else TIMED_OUT.format(rank=rank, second=20 + rank))
            for rank in range(4)
        },
        found,
    )
    write_logs(
        "rank-crashed/unsure_whose_exception",
        {"job.log": _steps() + raised(2, missing, prefix=False) + waits},
        {"certainty_at_most": "likely", "exit_code": 1, "cause": "rank-crashed", "ranks": []},
    )
    job = Job(HANDLED, 3)
    job.history(range(3), 40, AT)
    job.call((0, 1), 41, "all_reduce", AT, open=True)
    job.dump(0, 1, 2)
    job.waits((0, 1), "all_reduce", AT)
    job.stack(2, "send(error) < report(error)", "recv_into (socket.py:706)")
    job.write("rank-crashed/hit_stands_in_its_handler", {"cause": "rank-crashed", "ranks": [2], "status": "hang"})


def _crashed_look_alikes() -> None:
    timeouts = {
        f"rank{r}.log": _steps() + TIMED_OUT.format(rank=r, second=20) + ABORTED.format(rank=r, second=21)
        for r in range(3)
    }
    aborted = torchrun((1, -6), (0, -6), (2, -6), victims=(3,))
    echo = {"not_cause": ["rank-crashed", "host-memory"], "certainty_at_most": "likely", "exit_code": 1}
    write_logs("rank-crashed/miss_aborts_after_the_watchdog", {**timeouts, "launcher.log": aborted}, echo)

    late = {f"rank{r}.log": _steps() + TIMED_OUT.format(rank=r, second=20) for r in range(3)}
    lost = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2395, remote process exited or there was a network error, NCCL version 2.27.5"
    late["rank3.log"] = _steps() + raised(3, lost)
    write_logs("rank-crashed/miss_lost_its_partners", late, echo)

    after = {f"rank{r}.log": _steps() + TIMED_OUT.format(rank=r, second=20) for r in range(3)}
    after["rank1.log"] += ABORTED.format(rank=1, second=21) + raised(1, "ValueError: I/O operation on closed file.")
    write_logs("rank-crashed/miss_failed_after_its_own_timeout", after, echo)

    recovered = _steps(30) + raised(2, "ValueError: bad sample 17", prefix=False).replace("[rank2]: ", "") + _steps(40)
    logs = {f"rank{r}.log": _steps() + TIMED_OUT.format(rank=r, second=20) for r in (0, 1)}
    job = Job(HANDLED, 3)
    job.history(range(3), 40, AT)
    job.call((0, 1, 2), 41, "all_reduce", AT, open=True)
    job.dump(0, 1, 2)
    job.waits((0, 1, 2), "all_reduce", AT)
    for name, text in {**logs, "rank2.log": recovered}.items():
        job.log(name, text)
    joined = {"not_cause": "rank-crashed", "cause": "unknown", "status": "hang"}
    job.write("rank-crashed/miss_handled_and_went_on", joined)

    stopped = "".join(raised(r, "KeyboardInterrupt") for r in range(2))
    write_logs(
        "rank-crashed/miss_interrupted_by_its_user",
        {"job.log": _steps() + "^C" + stopped},
        {"not_cause": ["rank-crashed", "gpu-oom"]},
    )
    for told, torch_says in (("number", "2"), ("name", "Signals.SIGINT")):  # the name up to Python 3.10
        launcher = f"W0627 16:58:27 2813 torch/distributed/elastic/agent/server/api.py:704] Received {torch_says} death"
        write_logs(
            f"unknown/unsure_log_ctrl_c_by_{told}",
            {"job.log": _steps() + f"{launcher} signal, shutting down workers\n"},
            {"cause": "unknown", "certainty_at_most": "possible"},
        )


def _signals() -> None:
    job = Job(PROGRAM, 3)
    job.history(range(3), 40, AT)
    job.call((0, 2), 41, "all_reduce", AT, open=True)
    job.dump(0, 2)
    job.waits((0, 2), "all_reduce", AT)
    job.process(1, exit_code=-11, killed_by_us=False, ended_s=1_760_000_045.0)
    found = {"cause": "rank-crashed", "ranks": [1], "certainty": "certain", "waiter_where": job.place(AT)}
    job.write("rank-crashed/hit_segmentation_fault", found)
    job.process(2, exit_code=-15, killed_by_us=False, terminated_by_launcher=True, ended_s=1_760_000_047.0)
    job.process(0, exit_code=-6, killed_by_us=False, ended_s=1_760_000_050.0)
    job.write("rank-crashed/hit_the_others_were_ended", {"cause": "rank-crashed", "ranks": [1]})


def _gpu_memory() -> None:
    closed = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2395, remote process exited or there was a network error"
    log = _steps() + raised(1, MEMORY) + raised(0, closed, line=12) + raised(2, closed, line=12)
    found = {
        "cause": "gpu-oom",
        "ranks": [1],
        "where": {"file": "train.py", "line": 8, "function": "main"},
        "exit_code": 1,
    }
    write_logs("gpu-oom/hit_then_network_errors", {"job.log": log + torchrun((1, 1), (0, 1), (2, 1))}, found)
    write_logs(
        "gpu-oom/unsure_whose_memory",
        {"job.log": _steps() + raised(1, MEMORY, prefix=False)},
        {"cause": "gpu-oom", "ranks": [], "certainty_at_most": "likely"},
    )

    host = "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 51539607552 bytes. Error code 12 (Cannot allocate memory)"
    write_logs(
        "gpu-oom/miss_memory_of_the_host",
        {"job.log": _steps() + raised(1, host) + torchrun((1, 1), victims=(0, 2))},
        {"not_cause": "gpu-oom", "ranks": [1], "exit_code": 1},
    )
    job = Job(PROGRAM, 3)
    job.history(range(3), 40, AT)
    job.call((0, 1), 41, "all_reduce", AT, open=True)
    job.dump(0, 1, 2)
    job.waits((0, 1), "all_reduce", AT)
    job.stack(2, "loss = step(batch)", "_save (torch/serialization.py:1214) < save (torch/serialization.py:967)")
    job.log("rank0.log", _steps(20) + "WARNING step skipped: CUDA out of memory, halving the batch\n" + _steps(40))
    for rank in (1, 2):
        job.log(f"rank{rank}.log", _steps(40))
    work = {"not_cause": "gpu-oom", "cause": "single-rank-work", "ranks": [2]}
    job.write("gpu-oom/miss_caught_long_before", work)


def _limits() -> None:
    timeout = TIMED_OUT.replace("Timeout(ms)=600000", "Timeout(ms)=60000").replace("600012", "60012")
    logs = {f"rank{r}.log": _steps() + timeout.format(rank=r, second=20) for r in (1, 2)}
    logs["rank0.log"] = _steps() + _bar("evaluating")
    late = {"cause": "timeout-too-short", "ranks": [0], "certainty_at_most": "likely"}
    write_logs("timeout-too-short/unsure_cut_off_while_it_counted", logs, late)

    tiny = TIMED_OUT.replace("Timeout(ms)=600000", "Timeout(ms)=600").replace("600012", "612")
    write_logs(
        "timeout-too-short/hit_milliseconds_for_seconds",
        {f"rank{r}.log": _steps() + tiny.format(rank=r, second=20) for r in (0, 1)},
        {"cause": "timeout-too-short", "exit_code": 1},
    )

    crashed = {f"rank{r}.log": _steps() + timeout.format(rank=r, second=20) for r in (1, 2)}
    crashed["rank0.log"] = _steps() + raised(0, "ValueError: bad sample 17")
    write_logs(
        "timeout-too-short/miss_the_rank_had_crashed",
        crashed,
        {"not_cause": "timeout-too-short", "cause": "rank-crashed", "ranks": [0]},
    )

    same = {f"rank{r}.log": _bar() + TIMED_OUT.format(rank=r, second=20) for r in (1, 2)}
    same["rank0.log"] = _bar()
    write_logs(
        "timeout-too-short/miss_everyone_counts_the_same",
        same,
        {"not_cause": "timeout-too-short", "ranks": [0], "exit_code": 1},
    )
