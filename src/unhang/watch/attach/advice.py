"""The lines after the verdict: who stands in the same place, time left, safe to stop or not, who is elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from unhang.evidence.items import Frame, StackDump
from unhang.findings import Stop
from unhang.knowledge.libraries import is_library_file
from unhang.sentences import Text, say
from unhang.watch.attach.collected_evidence import CollectedEvidence
from unhang.watch.attach.live_verdict import LiveDiagnosis
from unhang.watch.attach.sources.nccl_ras import RasStatement, ranks_behind

ASLEEP_TOLD_S = 10.0
"""Less is what attach itself takes, and a little more."""


def advice(taken: CollectedEvidence, conclusion: LiveDiagnosis) -> Iterator[Text]:
    """The lines after the verdict, in the order in which they matter."""
    yield from _time_left(conclusion)
    stop = conclusion.verdict.stop
    if stop is not None:
        yield stop.summary
        yield from _stop_steps(stop)
    nodes = conclusion.verdict.restart.exclude_nodes
    if nodes:
        yield say("restart without: {nodes}", nodes=", ".join(nodes))
    yield from _ras_findings(taken)
    yield from _ranks_on_other_nodes(taken)


def _time_left(conclusion: LiveDiagnosis) -> Iterator[Text]:
    if conclusion.limit_at_s is None:
        return
    left_s = conclusion.limit_at_s - time.time()
    if left_s > 0:
        at = time.strftime("%H:%M:%S", time.localtime(conclusion.limit_at_s))
        yield say("the wait times out in {seconds:.0f} s, at {at}", seconds=left_s, at=at)
    else:
        yield say(
            "the wait timed out {seconds:.0f} s ago; torch ends an NCCL job about a minute later",
            seconds=-left_s,
        )


def _stop_steps(stop: Stop) -> Iterator[Text]:
    commands = stop.commands
    if not commands or stop.advice == "no":
        return
    if commands[0].startswith("scancel"):
        yield say("how: {command}; or on each node", command=commands[0])
        commands = commands[1:]
    if commands[0].startswith("kill -CONT"):
        commands = commands[1:]
    gentle, last = commands[0], commands[-1]
    yield say("how: {gentle}; if ranks are left after 30 s: {last}", gentle=gentle, last=last)


def _ras_findings(taken: CollectedEvidence) -> Iterator[Text]:
    for process in taken.ras[-1].dead[:4] if taken.ras else ():
        yield say("NCCL RAS: process {pid} on node {node} no longer responds", pid=process.pid, node=process.node)
    if len(taken.ras) < 2:
        return
    late: dict[tuple[str, str, int | None], list[RasStatement]] = {}
    for statement in ranks_behind(*taken.ras[:2]):
        late.setdefault((statement.communicator, statement.function, statement.operation), []).append(statement)
    for (communicator, function, operation), statements in sorted(late.items(), key=str):
        yield say(
            "NCCL RAS: in communicator {communicator}, ranks {ranks} have launched at most "
            "{operation} {function} operations",
            communicator=communicator,
            ranks=", ".join(str(s.rank) for s in statements[:16]),
            operation=operation if operation is not None else "?",
            function=function or "collective",
        )


def _ranks_on_other_nodes(taken: CollectedEvidence) -> Iterator[Text]:
    here, world = len(taken.chosen.ranks), taken.world_size
    gone = taken.chosen.gone
    if gone:
        yield say(
            "{ranks:who} {ranks:belongs|belong} to this machine, but {ranks:its process is|their processes are} gone",
            ranks=gone,
        )
    if world is None or here + len(gone) >= world:
        return
    yield say("{here} of {world} ranks run on this machine; the rest run elsewhere", here=here, world=world)
    job = taken.chosen.ranks[0].environment.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOB_ID", "ID")
    yield say(
        "all nodes: srun --jobid={job} --overlap --ntasks-per-node=1 unhang attach --dir SHARED; "
        "then unhang diagnose SHARED",
        job=job,
    )


def reread_hint(folder: Path) -> Text:
    """The last line."""
    return say("saved to {folder}   re-read it: unhang diagnose {folder}", folder=str(folder))


def stack_group_lines(taken: CollectedEvidence) -> Iterator[Text]:
    """One line a group of equal stacks, the largest group first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for rank in taken.chosen.ranks:
        groups.setdefault((_place(taken, rank.pid), _movement(taken, rank.rank)), []).append(rank.rank)
    for (place, movement), ranks in sorted(groups.items(), key=lambda item: (-len(item[1]), item[1])):
        since_s = [known for rank in ranks if (known := taken.asleep_since_s(rank)) is not None]
        yield _line(movement, ranks, place, time.time() - max(since_s) if len(since_s) == len(ranks) else 0.0)


def _line(movement: str, ranks: list[int], place: str, asleep_s: float) -> Text:
    if movement == "stopped":
        return say("{ranks:who}: {place} (stopped, state T)", ranks=ranks, place=place)
    if movement == "once":
        return say("{ranks:who}: {place} (sampled once)", ranks=ranks, place=place)
    if movement == "spins":
        return say("{ranks:who}: {place} (same line in every sample; using CPU)", ranks=ranks, place=place)
    if movement == "busy":
        return say("{ranks:who}: {place} (using CPU)", ranks=ranks, place=place)
    if movement == "moving":
        return say("{ranks:who}: {place} (moving)", ranks=ranks, place=place)
    if asleep_s >= ASLEEP_TOLD_S:
        return say(
            "{ranks:who}: {place} (asleep there for {seconds:.0f} s)", ranks=ranks, place=place, seconds=asleep_s
        )
    return say("{ranks:who}: {place} (not moving)", ranks=ranks, place=place)


def _movement(taken: CollectedEvidence, rank: int) -> str:
    if taken.states().get(rank, "") in ("T", "t"):
        return "stopped"
    answer = taken.moving.get(rank)
    if answer is None:
        samples = next((taken.samples.get(r.pid, []) for r in taken.chosen.ranks if r.rank == rank), [])
        return "spins" if len(samples) > 1 else "once"
    if not answer:
        return "still"
    return "busy" if rank in taken.refused() else "moving"


def _place(taken: CollectedEvidence, pid: int) -> str:
    dumps = [sample.dump for sample in taken.samples.get(pid, []) if sample.dump is not None]
    if dumps:
        return _main_place(dumps[-1])
    kernel = taken.samples[pid][-1].kernel if taken.samples.get(pid) else None
    if kernel is None or not kernel.state:
        return "gone"
    where = f", in {kernel.waits_in}" if kernel.waits_in else ""
    return f"no stack; kernel state {kernel.state}{where}"


def _main_place(dump: StackDump) -> str:
    main = next((t for t in dump.threads if t.name == "MainThread"), dump.threads[0])
    frames = [frame for frame in main.frames if not frame.native and frame.line is not None]
    if not frames:
        return "no Python frame"
    mine = next((frame for frame in frames if not is_library_file(frame.file)), None)
    inner = frames[0].function
    if mine is None or mine is frames[0]:
        return _named(frames[0])
    return f"{inner} < {_named(mine)}"


def _named(frame: Frame) -> str:
    return f"{frame.function} {PurePosixPath(frame.file).name}:{frame.line}"
