"""What to do with the live job now: safe to stop or not, how, without which nodes, and how much time is left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from unhang.findings import Certainty, Phase, Status, Text, say
from unhang.watch.attach.concluding import Conclusion
from unhang.watch.attach.ras import RasStatement, behind
from unhang.watch.attach.taking import Taken


def advice(taken: Taken, conclusion: Conclusion) -> Iterator[Text]:
    """The lines after the verdict, in the order in which they matter."""
    yield from _left(conclusion)
    yield _safe(taken, conclusion)
    yield from _how(taken, conclusion)
    yield from _nodes(taken, conclusion)
    yield from _ras(taken)
    yield from _elsewhere(taken)


def _left(conclusion: Conclusion) -> Iterator[Text]:
    if conclusion.limit_at_s is None:
        return
    left_s = conclusion.limit_at_s - time.time()
    if left_s > 0:
        at = time.strftime("%H:%M:%S", time.localtime(conclusion.limit_at_s))
        yield say("the job's own watchdog ends it in {seconds:.0f} s, at {at}", seconds=left_s, at=at)
    else:
        yield say("the job's own limit passed {seconds:.0f} s ago; it may end at any moment", seconds=-left_s)


def _safe(taken: Taken, conclusion: Conclusion) -> Text:
    saving = [
        rank
        for rank, known in sorted(conclusion.facts.ranks.items())
        if known.activity is not None and known.activity.phase is Phase.SAVE and known.moving
    ]
    if saving:
        return say("stop it? not yet: {ranks:who} {ranks:is|are} writing a checkpoint, and moving", ranks=saving)
    status = conclusion.verdict.status
    if status is Status.HEALTHY:
        return say("stop it? no: nothing is stuck")
    if status is Status.SLOW:
        return say("stop it? it may go on by itself: {ranks:who} still {ranks:works|work}", ranks=_laggards(conclusion))
    stopped = [rank for rank, state in sorted(taken.states().items()) if state == "T"]
    if stopped:
        return say(
            "stop it? not needed if {ranks:who} may go on: kill -CONT {pids}",
            ranks=stopped,
            pids=_pids(taken, stopped),
        )
    if status is Status.UNKNOWN and not conclusion.facts.graph.waiters:
        return say("stop it? wait: nothing shows yet that it is stuck; look again with --for 60")
    lead = conclusion.verdict.findings[0] if conclusion.verdict.findings else None
    if lead is None or lead.certainty is not Certainty.CERTAIN:
        return say("stop it? the evidence is kept; nothing shows that it will go on by itself")
    return say("stop it? yes: it will not go on by itself, and the evidence is kept")


def _how(taken: Taken, conclusion: Conclusion) -> Iterator[Text]:
    if conclusion.verdict.status is Status.HEALTHY:
        return
    environment = taken.chosen.ranks[0].environment
    slurm = environment.get("SLURM_JOB_ID", "")
    pids = " ".join(str(rank.pid) for rank in taken.chosen.ranks)
    if slurm.isdigit():
        yield say("how: scancel {job}; or on each node", job=slurm)
    launcher = taken.chosen.launcher
    if launcher is not None:
        yield say(
            "how: kill -TERM {launcher}; if ranks are left after 30 s: kill -KILL {pids}", launcher=launcher, pids=pids
        )
    else:
        yield say("how: kill -TERM {pids}; after 30 s: kill -KILL {pids}", pids=pids)


def _nodes(taken: Taken, conclusion: Conclusion) -> Iterator[Text]:
    dead = {node for report in taken.ras for node in report.dead_nodes}
    nodes = sorted(dead | set(conclusion.verdict.restart.exclude_nodes))
    if nodes:
        yield say("start again without: {nodes}", nodes=", ".join(nodes))


def _ras(taken: Taken) -> Iterator[Text]:
    if len(taken.ras) < 2:
        return
    late: dict[tuple[str, int | None], list[RasStatement]] = {}
    for statement in behind(*taken.ras[:2]):
        late.setdefault((statement.communicator, statement.operation), []).append(statement)
    for (communicator, operation), statements in sorted(late.items(), key=str):
        yield say(
            "NCCL RAS: in communicator {communicator} ranks {ranks} have launched no more than {operation} operations",
            communicator=communicator,
            ranks=", ".join(str(s.rank) for s in statements[:16]),
            operation=operation if operation is not None else "?",
        )


def _elsewhere(taken: Taken) -> Iterator[Text]:
    here, world = len(taken.chosen.ranks), taken.world_size
    gone = taken.chosen.gone
    if gone:
        yield say(
            "{ranks:who} {ranks:belongs|belong} on this machine and {ranks:has|have} no process any more", ranks=gone
        )
    if world is None or here + len(gone) >= world:
        return
    yield say("{here} of {world} ranks run on this machine; the others are elsewhere", here=here, world=world)
    job = taken.chosen.ranks[0].environment.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOB_ID", "ID")
    yield say(
        "all nodes: srun --jobid={job} --overlap --ntasks-per-node=1 unhang attach --dir SHARED; "
        "then unhang diagnose SHARED",
        job=job,
    )


def read_back(folder: Path) -> Text:
    """The last line."""
    return say("evidence: {folder}   again: unhang diagnose {folder}", folder=str(folder))


def _laggards(conclusion: Conclusion) -> list[int]:
    found = conclusion.verdict.findings
    return list(found[0].ranks) if found else []


def _pids(taken: Taken, ranks: list[int]) -> str:
    return " ".join(str(rank.pid) for rank in taken.chosen.ranks if rank.rank in ranks)
