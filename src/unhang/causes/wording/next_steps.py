"""How to learn more, by whether the job still runs: of a job that is over only logs and the next run tell."""

from __future__ import annotations

from collections.abc import Iterable

from unhang.facts.endings.good_endings import is_job_over
from unhang.facts.incident_features import incident_features
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.model import Facts, RankState
from unhang.findings import Remedy
from unhang.knowledge.remedies import remedy
from unhang.late_pattern import late_pattern

_MAX_PIDS = 8


def inspect_ranks(facts: Facts, ranks: tuple[int, ...]) -> tuple[Remedy, ...]:
    """What ``ranks`` do, or did: by their own logs where none was read, else by the next run."""
    unread = tuple(r for r in ranks if r not in facts.ranks or facts.ranks[r].state is RankState.MISSING)
    now = remedy("inspect-ranks-while-stuck", ranks=ranks, commands=stack_commands(facts, ranks))
    return _now_or_later(facts, now, remedy("read-rank-logs", ranks=unread)) if unread else now_or_next_run(facts, now)


def inspect_all(facts: Facts) -> tuple[Remedy, ...]:
    """What every rank does, or what the next run is to record: as the program says that runs the job."""
    now, later = _STEPS[program_of(facts)]
    return _now_or_later(facts, now=remedy(now), later=remedy(later))


_STEPS = {
    "vLLM": ("vllm-now", "vllm-later"),
    "Ray": ("ray-now", "ray-later"),
    "Slurm": ("slurm-now", "slurm-later"),
    "Kubernetes": ("kubernetes-now", "kubernetes-later"),
    "torch": ("collect-per-rank-evidence", "run-again-watched"),
    "": ("collect-per-rank-evidence", "python-later"),
}
OF_NOBODY = ("torch", "")
"""Programs that nobody has to be asked about: they are the user's own."""
_ENDS = {"Slurm": "slurm-end", "Kubernetes": "kubernetes-end", "Ray": "ray-end"}


def see_whether_it_ended(facts: Facts) -> Remedy:
    """What tells how the whole job ended, where a part of it says that it did; or that it runs still."""
    return remedy(_ENDS.get(program_of(facts), "get-exit-code"))


def watch_moving_job(facts: Facts) -> Remedy:
    """What every rank of a job does of which nothing bad is known."""
    program = program_of(facts)
    return remedy("attach-to-moving-job" if program in OF_NOBODY else _STEPS[program][0])


def now_or_next_run(facts: Facts, now: Remedy) -> tuple[Remedy, ...]:
    """``now`` while the job runs; of one that is over, what the next run is to record."""
    return _now_or_later(facts, now, later=remedy(_STEPS[program_of(facts)][1]))


def tell_kernel_from_transport(facts: Facts, ranks: Iterable[int]) -> tuple[Remedy, ...]:
    """Whether a kernel of one of ``ranks`` never ends, or the transport carries nothing; their stacks are asked for
    where they were not taken."""
    later = remedy("time-calls-next-run")
    if all(facts.ranks[rank].stack is not None for rank in ranks):
        return (later,)
    return _now_or_later(facts, now=remedy("sample-stacks-twice"), later=later)


def _now_or_later(facts: Facts, now: Remedy, later: Remedy) -> tuple[Remedy, ...]:
    """Where only a log was read that does not tell whether the job still runs, both."""
    match is_job_over(facts):
        case True:
            return (later,)
        case False:
            return (now,)
    return (later, now) if facts.logs else (now, later)


def stack_commands(facts: Facts, ranks: Iterable[int]) -> str:
    """One command a rank; one for all where their processes are not known."""
    commands = dict.fromkeys(rank_command(facts, rank, "py-spy dump") for rank in ranks)
    return "; ".join(list(commands)[:_MAX_PIDS])


def rank_command(facts: Facts, rank: int, command: str) -> str:
    """``command`` for the process of ``rank``; where it is not known, the one that finds the processes itself."""
    pid = facts.ranks[rank].pid if rank in facts.ranks else None
    return "unhang attach" if pid is None else f"{command} --pid {pid}"


_PROGRAMS = {
    "vLLM": ({"with:vllm"}, "vllm."),
    "Ray": ({"with:ray", "with:verl"}, "ray."),
    "Slurm": ({"with:slurm", "with:srun"}, "slurm."),
    "Kubernetes": ({"with:kubectl"}, "k8s."),
}
"""By the words that name it and by its messages; the one that knows most of the job first."""
_LINE_OF_VLLM = late_pattern(r"[A-Z]{4,8} \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]+\.py:\d+\] ")
"""What its logger begins every line with, whatever it is about."""
_OF_TRAINING = {
    f"with:{name}" for name in ("torchrun", "deepspeed", "accelerate", "transformers", "trl", "fsdp", "grpo")
}
"""Programs that may have vLLM inside, which is not who has to be asked."""
_OF_TORCH = ("te.", "wd.", "hb.", "store.", "dump.", "tc.")


def program_of(facts: Facts) -> str:
    """``vLLM``, ``Ray``, ``Slurm``, ``Kubernetes``, ``torch`` (torchrun, or any job of torch.distributed), or empty."""
    if facts.manifests or any(known.recording is not None for known in facts.ranks.values()):
        return "torch"
    shown = incident_features(facts)
    for name, (features, messages) in _PROGRAMS.items():
        if features & shown or facts.events_of(messages):
            return name
    if not _OF_TRAINING & shown and _is_of_vllm(facts):
        return "vLLM"
    return "torch" if "with:torchrun" in shown or facts.events_of(*_OF_TORCH) else ""


def _is_of_vllm(facts: Facts) -> bool:
    """Its logger wrote a line, or a rank stands in it, though no line names it; and nothing counts steps."""
    if not all(is_preparing(run) for log in facts.logs for run in log.progress):
        return False
    stacks = (known.stack for known in facts.ranks.values() if known.stack is not None)
    files = (frame.file for stack in stacks for thread in stack.threads for frame in thread.frames)
    lines = (line.text for log in facts.logs for line in log.said)
    return any(map(_LINE_OF_VLLM.match, lines)) or any("/vllm/" in f"/{file}" for file in files)
