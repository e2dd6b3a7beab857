"""The one observation that confirms or refutes each cause, and how it is made: the cheapest there is."""

from __future__ import annotations

from unhang.findings import Cause
from unhang.sentences import Text, say

_STACKS = "py-spy dump --pid PID"
_SETTLING: dict[Cause, tuple[Text, str]] = {
    Cause.UNEVEN_DATA: (
        say("the number of batches on every rank, printed before the loop: it is the same, or it is not"),
        "print(rank, len(loader), flush=True)",
    ),
    Cause.RANK_CONDITIONAL_COLLECTIVE: (
        say("the stacks of two ranks while the job stands: one is inside a branch that the other went around"),
        _STACKS,
    ),
    Cause.COLLECTIVE_MISMATCH: (
        say("one run with every collective checked: the first that differs raises, with both shapes"),
        "TORCH_DISTRIBUTED_DEBUG=DETAIL",
    ),
    Cause.SINGLE_RANK_WORK: (
        say("the stack of the rank that did not come, while the others wait: it is at work in one place"),
        _STACKS,
    ),
    Cause.SLOW_DATA_LOADING: (say("the stack of the rank that did not come: it waits in its data loader"), _STACKS),
    Cause.RANK_CRASHED: (
        say("the log of the rank that ended first, to its last line, and its exit code"),
        "torchrun --log-dir DIR --redirects 3",
    ),
    Cause.GPU_OOM: (
        say("a line with 'out of memory' in the log of the rank that ended first"),
        "grep -il 'out of memory' DIR/*",
    ),
    Cause.HOST_MEMORY: (
        say("the kernel's log of the node: whether it killed a process, and the size of /dev/shm"),
        "dmesg -T | grep -i -E 'out of memory|oom'; df -h /dev/shm",
    ),
    Cause.GPU_HARDWARE: (
        say("the kernel's log of every node: an Xid or NVLink line at that time"),
        "dmesg -T | grep -i -E 'xid|nvlink|fallen off'",
    ),
    Cause.NETWORK_FAULT: (
        say("the links of the nodes at that time: errors counted, a port that went down"),
        "dmesg -T | grep -i -E 'link|mlx5|bnxt'; ip -s link",
    ),
    Cause.NETWORK_CONFIG: (
        say("the interface and address each rank chose at its start: all lie in one network that lets ports through"),
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET",
    ),
    Cause.P2P_BROKEN: (say("one run without P2P: it passes where it stood, or it does not"), "NCCL_P2P_DISABLE=1"),
    Cause.DEVICE_MAPPING: (
        say("the card of every rank, printed at its start: no two ranks of a node have the same"),
        "print(rank, torch.cuda.current_device(), flush=True)",
    ),
    Cause.VERSION_MISMATCH: (
        say("the versions of torch, NCCL, CUDA and driver on every node, beside those known to work"),
        "unhang check",
    ),
    Cause.TIMEOUT_TOO_SHORT: (
        say("whether the rank that was missing got on after the limit: its log has later lines, or more time helps"),
        "init_process_group(timeout=timedelta(hours=3))",
    ),
    Cause.RENDEZVOUS: (
        say("whether every node reaches the first one's address and port, and how many were started"),
        "nc -vz MASTER_ADDR MASTER_PORT",
    ),
    Cause.DEADLOCK_ORDER: (
        say("the stacks of two ranks while the job stands: each waits in another group or call than the other"),
        _STACKS,
    ),
    Cause.RANK_FROZEN: (
        say("the state of each process: one is stopped (T), or stands in the same native call twice"),
        "ps -o pid,stat,wchan:30,cmd",
    ),
    Cause.SLOW_RANK: (
        say("clocks, heat and load of each card and node, while the job runs"),
        "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE",
    ),
}


def settling_observation(cause: Cause) -> tuple[Text, str]:
    """What would be seen, and the command or setting that shows it."""
    return _SETTLING[cause]
