"""Whether it is safe to stop the live job, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from unhang.facts.model import Facts
from unhang.findings import Certainty, Phase, Restart, Status, Stop, Verdict
from unhang.sentences import Text, say
from unhang.watch.attach.collected_evidence import CollectedEvidence


def how_to_stop(taken: CollectedEvidence, verdict: Verdict, facts: Facts) -> Stop:
    """The advice on the job as it was found."""
    advice, because = _advice(taken, verdict, facts)
    commands = tuple(_commands(taken))
    if advice == "continue":
        commands = (f"kill -CONT {_pids(taken, _stopped(taken))}", *commands)
    return Stop(advice, because, commands)


def without_dead_nodes(taken: CollectedEvidence, restart: Restart) -> Restart:
    """``restart``, leaving out the nodes too whose processes do not answer NCCL's RAS."""
    dead = {node for report in taken.ras for node in report.dead_nodes}
    if not dead - set(restart.exclude_nodes):
        return restart
    return replace(restart, exclude_nodes=tuple(sorted(dead | set(restart.exclude_nodes))))


def _advice(taken: CollectedEvidence, verdict: Verdict, facts: Facts) -> tuple[str, Text]:
    saving = [
        rank
        for rank, known in sorted(facts.ranks.items())
        if known.activity is not None and known.activity.phase is Phase.SAVE and known.moving
    ]
    if saving:
        text = say("stop it? not yet: {ranks:who} {ranks:is|are} writing a checkpoint, and moving", ranks=saving)
        return "not-yet", text
    if verdict.status is Status.HEALTHY:
        return "no", say("stop it? no: nothing is stuck")
    lead = verdict.findings[0] if verdict.findings else None
    if verdict.status is Status.SLOW:
        ranks = list(lead.ranks) if lead is not None else []
        text = say("stop it? it may go on by itself: {ranks:who} still {ranks:works|work}", ranks=ranks)
        return "may-go-on", text
    if stopped := _stopped(taken):
        pids = _pids(taken, stopped)
        text = say("stop it? not needed if {ranks:who} may go on: kill -CONT {pids}", ranks=stopped, pids=pids)
        return "continue", text
    if verdict.status is Status.UNKNOWN and not facts.graph.waiters:
        return "look-again", say("stop it? wait: nothing shows yet that it is stuck; look again with --for 60")
    if lead is None or lead.certainty is not Certainty.CERTAIN:
        return "unsure", say("stop it? the evidence is kept; nothing shows that it will go on by itself")
    return "yes", say("stop it? yes: it will not go on by itself, and the evidence is kept")


def _commands(taken: CollectedEvidence) -> Iterator[str]:
    slurm = taken.chosen.ranks[0].environment.get("SLURM_JOB_ID", "")
    if slurm.isdigit():
        yield f"scancel {slurm}"
    pids = " ".join(str(rank.pid) for rank in taken.chosen.ranks)
    launcher = taken.chosen.launcher
    yield f"kill -TERM {launcher if launcher is not None else pids}"
    yield f"kill -KILL {pids}"


def _stopped(taken: CollectedEvidence) -> list[int]:
    return [rank for rank, state in sorted(taken.states().items()) if state == "T"]


def _pids(taken: CollectedEvidence, ranks: Sequence[int]) -> str:
    return " ".join(str(rank.pid) for rank in taken.chosen.ranks if rank.rank in ranks)
