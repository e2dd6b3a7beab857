"""The cases of the lab: what each job does, which fault it holds, and the verdict its bundle must get.

The scripts themselves stand in ``cases/`` and say nothing about their fault; nothing in a bundle does. Lines are
named by a piece of code that occurs once in the script, so that they stay right when a script changes.
"""

from __future__ import annotations

from unhang.errors import UsageError
from unhang.findings import Cause
from unhang_lab.lab_case import (
    ExpectedVerdict,
    LabCase,
    all_but_last,
    all_ranks,
    first_rank,
    last_rank,
    no_rank,
    odd_ranks,
    second_rank,
)
from unhang_lab.recorder import Injection

"""Guilty ranks of a job of N ranks."""


CASES: tuple[LabCase, ...] = (
    LabCase(
        "missing-rank",
        "one rank skips a collective inside an if on its rank",
        "missing_rank.py",
        ExpectedVerdict(
            Cause.RANK_CONDITIONAL_COLLECTIVE,
            last_rank,
            where=("dist.barrier()",),
            waiter=("dist.all_gather(losses, mine)",),
        ),
        fault="if rank != world - 1:",
        after=15,
    ),
    LabCase(
        "split-without-seed",
        "every rank splits the data with its own shuffle, so the ranks run different numbers of steps",
        "split_without_seed.py",
        ExpectedVerdict(
            Cause.UNEVEN_DATA, no_rank, where=("dist.barrier()",), waiter=("loss.backward()",), fewest_batches=True
        ),
        fault="random.shuffle(books)",
        ranks=4,
        after=30,
    ),
    LabCase(
        "rank0-only",
        "rank 0 alone calls a function that holds a collective",
        "rank0_only.py",
        ExpectedVerdict(
            Cause.RANK_CONDITIONAL_COLLECTIVE, first_rank, where=("dist.all_reduce(total)",), waiter=("dist.barrier()",)
        ),
        fault="if rank == 0:",
        after=5,
    ),
    LabCase(
        "different-sizes",
        "one rank gathers more elements than the others (Gloo aborts, NCCL hangs)",
        "different_sizes.py",
        ExpectedVerdict(
            Cause.COLLECTIVE_MISMATCH,
            last_rank,
            status=("crash", "hang"),
            where=("dist.all_gather(everyone, predictions)",),
            waiter=("dist.all_gather(everyone, predictions)",),
        ),
        fault="mine = test_rows // world",
        ranks=4,
        at_least=3,
        after=8,
    ),
    LabCase(
        "different-sizes-fewer",
        "one rank gathers fewer elements than the others, so that it is the one Gloo aborts (NCCL hangs)",
        "different_sizes_fewer.py",
        ExpectedVerdict(
            Cause.COLLECTIVE_MISMATCH,
            last_rank,
            status=("crash", "hang"),
            where=("dist.all_gather(everyone, errors)",),
            waiter=("dist.all_gather(everyone, errors)",),
        ),
        fault="mine = range(rank, rows - rows % world - 1, world)",
        ranks=4,
        at_least=3,
        after=8,
    ),
    LabCase(
        "different-operations",
        "one rank broadcasts where the others all-reduce, decided by its own loss",
        "different_operations.py",
        ExpectedVerdict(
            Cause.COLLECTIVE_MISMATCH,
            second_rank,
            where=("dist.broadcast(state, src=0)",),
            waiter=("dist.all_reduce(state, op=dist.ReduceOp.MAX)",),
        ),
        fault="dist.broadcast(state, src=0)",
        at_least=3,
        after=10,
    ),
    LabCase(
        "different-dtype",
        "one rank all-reduces another dtype of another width (Gloo aborts, NCCL hangs)",
        "different_dtype.py",
        ExpectedVerdict(
            Cause.COLLECTIVE_MISMATCH,
            second_rank,
            status=("crash", "hang"),
            where=("dist.all_reduce(tokens)",),
            waiter=("dist.all_reduce(tokens)",),
        ),
        fault="tokens = torch.as_tensor([total] * 4, device=device)",
        ranks=4,
        at_least=3,
        after=15,
    ),
    LabCase(
        "different-dtype-wider",
        "one rank all-reduces float64 among float32, so that Gloo aborts an innocent one (NCCL hangs)",
        "different_dtype_wider.py",
        ExpectedVerdict(
            Cause.COLLECTIVE_MISMATCH,
            second_rank,
            status=("crash", "hang"),
            where=("dist.all_reduce(norms)",),
            waiter=("dist.all_reduce(norms)",),
        ),
        fault="numpy.full(len(norms), limit)",
        ranks=4,
        at_least=3,
        after=15,
    ),
    LabCase(
        "different-dtype-same-bytes",
        "one rank all-reduces float32 among int32: nothing stops there, but the result differs and the steps with it",
        "different_dtype_same_bytes.py",
        ExpectedVerdict(
            Cause.COLLECTIVE_MISMATCH,
            last_rank,
            where=("dist.all_reduce(shared, op=dist.ReduceOp.MIN)",),
            waiter=("loss.backward()", "dist.all_reduce(shared, op=dist.ReduceOp.MIN)"),
        ),
        fault="steps = rows / batch_size",
        at_least=3,
        after=3,
    ),
    LabCase(
        "order-swap",
        "one rank uses two groups in the opposite order",
        "order_swap.py",
        ExpectedVerdict(
            Cause.DEADLOCK_ORDER,
            all_ranks,
            also_ranks=first_rank,
            where=("average(expert.parameters(), expert_group)", "average(dense.parameters(), dense_group)"),
            waiter=("average(expert.parameters(), expert_group)", "average(dense.parameters(), dense_group)"),
        ),
        fault='ready_first = "expert"',
        after=5,
    ),
    LabCase(
        "chain-of-groups",
        "a chain of waits across three groups; the last rank works alone at its end",
        "chain_of_groups.py",
        ExpectedVerdict(
            Cause.SINGLE_RANK_WORK,
            last_rank,
            watched=("slow",),
            where_functions=("write_shard",),
            waiter=(
                "dist.all_reduce(model.weight.grad, group=pairs[rank])",
                "dist.all_reduce(model.weight.grad, group=pairs[rank - 1])",
            ),
        ),
        fault="write_shard(range(10**6)",
        ranks=4,
    ),
    LabCase(
        "p2p-cycle",
        "every rank sends to its neighbour before anyone receives",
        "p2p_cycle.py",
        ExpectedVerdict(
            Cause.DEADLOCK_ORDER,
            all_ranks,
            where=("dist.send(tensor, (rank + 1) % world)",),
            waiter=("dist.send(tensor, (rank + 1) % world)",),
        ),
        fault="dist.send(tensor, (rank + 1) % world)",
        after=2,
    ),
    LabCase(
        "rank0-tokenises",
        "rank 0 tokenises the corpus while the others wait in a barrier",
        "rank0_tokenises.py",
        ExpectedVerdict(
            Cause.SINGLE_RANK_WORK,
            first_rank,
            status=("hang", "slow"),
            watched=("slow",),
            where_functions=("tokenize", "prepare"),
            waiter=("dist.barrier()",),
        ),
        fault='prepare("tokens.pt")',
        after=2,
    ),
    LabCase(
        "loader-stuck",
        "a loader worker of one rank waits for a file that never comes",
        "loader_stuck.py",
        ExpectedVerdict(
            Cause.SLOW_DATA_LOADING,
            last_rank,
            watched=("slow",),
            where=("for step, batch in enumerate(loader):", "with open(self.paths[index]) as file:"),
            waiter=("loss.backward()",),
        ),
        fault="os.mkfifo(path)",
        after=8,
    ),
    LabCase(
        "late-to-init",
        "one rank waits for a file before it comes to init_process_group",
        "late_to_init.py",
        ExpectedVerdict(
            Cause.SINGLE_RANK_WORK,
            last_rank,
            watched=("slow",),
            where=("time.sleep(0.5)",),
            waiter=("dist.init_process_group(backend",),
        ),
        fault="if number % WORLD != WORLD - 1:",
        after=0,
    ),
    LabCase(
        "group-in-branch",
        "all ranks but one make another group",
        "group_in_branch.py",
        ExpectedVerdict(
            Cause.RANK_CONDITIONAL_COLLECTIVE,
            all_but_last,
            where=('return dist.new_group(backend="gloo")',),
            waiter=("loss.backward()",),
        ),
        fault="if dist.get_rank() in quiet:",
        after=1,
    ),
    LabCase(
        "thread-exception",
        "the training thread of one rank dies; its main thread goes on reporting",
        "thread_exception.py",
        ExpectedVerdict(
            Cause.RANK_CRASHED, second_rank, where=("labels = torch.tensor(",), waiter=("loss.backward()",)
        ),
        fault="labels = torch.tensor(",
        after=20,
    ),
    LabCase(
        "killed",
        "somebody kills one rank with SIGKILL",
        "steady.py",
        ExpectedVerdict(Cause.RANK_CRASHED, second_rank, status=("crash", "hang")),
        injection=Injection("KILL", 1, after=10),
        moment="end",
    ),
    LabCase(
        "stopped",
        "somebody stops one rank with SIGSTOP",
        "steady.py",
        ExpectedVerdict(Cause.RANK_FROZEN, second_rank, waiter=("loss.backward()",)),
        injection=Injection("STOP", 1, after=10),
    ),
    LabCase(
        "holds-interpreter-lock",
        "a native call of one rank never returns and holds the interpreter lock",
        "holds_interpreter_lock.py",
        ExpectedVerdict(
            Cause.RANK_FROZEN, last_rank, where=("library.usleep(int(seconds * 1e6))",), waiter=("loss.backward()",)
        ),
        fault="library = ctypes.PyDLL(None)",
        after=15,
    ),
    LabCase(
        "teardown",
        "training is over, and the ranks close their groups in different order",
        "teardown.py",
        ExpectedVerdict(
            Cause.DEADLOCK_ORDER,
            all_ranks,
            also_ranks=odd_ranks,
            where=("dist.barrier(group=group)",),
            waiter=("dist.barrier(group=group)",),
        ),
        fault="close(groups if rank % 2 == 0 else groups[::-1])",
        after=10,
    ),
    LabCase(
        "out-of-memory",
        "one rank runs out of GPU memory (raised by hand on a CPU); a thread keeps its process alive",
        "out_of_memory.py",
        ExpectedVerdict(
            Cause.GPU_OOM,
            second_rank,
            status=("hang", "crash"),
            where_functions=("activations",),
            waiter=("loss.backward()",),
        ),
        fault="length = 2**40",
        after=8,
    ),
    LabCase(
        "timeout-too-short",
        "rank 0 does planned work that would have ended, but the limit of the others is shorter",
        "timeout_too_short.py",
        ExpectedVerdict(
            Cause.TIMEOUT_TOO_SHORT,
            first_rank,
            status=("hang", "crash"),
            where_functions=("score",),
            waiter=("dist.barrier()",),
        ),
        fault="timeout=timedelta(seconds=4)",
        moment="end",
        timeout_s=4.0,
    ),
    LabCase(
        "frozen-transport",
        "everyone joined the same collective and no byte moves any more",
        "steady_slow_steps.py",
        ExpectedVerdict(Cause.UNKNOWN, no_rank, also_ranks=all_ranks, waiter=("loss.backward()",)),
        injection=Injection("freeze-transport", None, after=4),
        backends=("gloo",),
    ),
    LabCase(
        "slow-rank",
        "one rank computes many times longer than the others; nothing stops",
        "slow_rank.py",
        ExpectedVerdict(Cause.SLOW_RANK, second_rank, status=("slow",), where_functions=("augment",)),
        fault="2000 if rank == 1 else 4",
        moment="moving",
        after=25,
    ),
    LabCase(
        "slow-loading",
        "one rank reads its data slowly; nothing stops",
        "slow_loading.py",
        ExpectedVerdict(
            Cause.SLOW_DATA_LOADING, last_rank, status=("slow",), where=("for step, batch in enumerate(DataLoader(",)
        ),
        fault="delay_s=0.05 if rank == world - 1",
        moment="moving",
        after=25,
    ),
    LabCase(
        "healthy",
        "a job that trains, saves and finishes",
        "healthy.py",
        ExpectedVerdict(None, no_rank, ("healthy",)),
        moment="end",
    ),
    LabCase(
        "healthy-running",
        "a job that is looked at while it trains as it should",
        "steady.py",
        ExpectedVerdict(None, no_rank, ("healthy",)),
        moment="moving",
        after=20,
    ),
)


def find_case(name: str) -> LabCase:
    """The case of that name.

    Raises:
        UsageError: there is none; the message names near ones.
    """
    for case in CASES:
        if case.name == name.replace("_", "-").lower():
            return case
    raise UsageError(f"There is no lab case {name!r}.", next_step="unhang lab list")
