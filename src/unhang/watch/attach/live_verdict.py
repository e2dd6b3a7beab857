"""From a bundle that was just taken to the verdict on the live job, and whether it is safe to stop it, and how."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import WHICH_RANK, build_facts
from unhang.facts.model import Facts
from unhang.facts.waiting.timeouts import limit_at_s
from unhang.findings import Certainty, NotChecked, Phase, Restart, Status, Stop, StopAdvice, Verdict
from unhang.report.verdict_document import to_json
from unhang.sentences import Text, say
from unhang.watch import private_files
from unhang.watch.attach.collected_evidence import CollectedEvidence, write_manifest
from unhang.watch.attach.rank_selection import permission_command
from unhang.watch.process_state.proc_processes import path_in_container
from unhang.watch.sampling.kept_source import keep_source


@dataclass(frozen=True, slots=True)
class LiveDiagnosis:
    """The verdict and what it rests on."""

    verdict: Verdict
    facts: Facts
    limit_at_s: float | None
    """When the limit of the wait passes, seconds since the epoch."""


def diagnose_bundle(taken: CollectedEvidence) -> LiveDiagnosis:
    """Diagnose the bundle in-process and leave ``verdict.json`` in it."""
    evidence = read_evidence([str(taken.folder)])
    write_manifest(taken, keep_source(evidence, taken.folder, seen_at=_path_resolver(taken)))
    facts = build_facts(evidence)
    verdict = diagnose(facts)
    limit = limit_at_s(facts)
    verdict = replace(
        verdict,
        not_checked=tuple(_not_checked(taken, verdict)),
        killed_in_s=round(max(0.0, limit - time.time()), 1) if limit is not None else None,
        restart=without_dead_nodes(taken, verdict.restart),
        stop=how_to_stop(taken, verdict, facts),
    )
    private_files.write_atomically(taken.folder / "verdict.json", to_json(verdict).encode())
    return LiveDiagnosis(verdict, facts, limit)


def _path_resolver(taken: CollectedEvidence) -> Callable[[str], Path]:
    """The ranks of one job may live in several containers: the first that has the file."""

    def seen_at(path: str) -> Path:
        found = (path_in_container(rank.pid, path) for rank in taken.chosen.ranks)
        return next((file for file in found if os.access(file, os.R_OK)), Path(path))

    return seen_at


def _not_checked(taken: CollectedEvidence, verdict: Verdict) -> Iterator[NotChecked]:
    top = taken.chosen.launcher or taken.chosen.ranks[0].pid
    for gap in verdict.not_checked:
        # whoever may look needs no more than this
        allowed = gap.how.startswith("sudo py-spy") or (gap.what == WHICH_RANK and taken.chosen.foreign)
        yield replace(gap, how=permission_command([top])) if allowed else gap
    if empty := sorted(taken.empty_dumps - taken.dumps):
        yield NotChecked(
            say("the calls of {ranks:who}", ranks=empty),
            say("torch's debug server returned an empty flight recorder"),
        )


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


def _advice(taken: CollectedEvidence, verdict: Verdict, facts: Facts) -> tuple[StopAdvice, Text]:
    saving = [
        rank
        for rank, known in sorted(facts.ranks.items())
        if known.activity is not None and known.activity.phase is Phase.SAVE and known.moving
    ]
    if saving:
        text = say("stop it? not yet: {ranks:who} {ranks:is|are} still writing a checkpoint", ranks=saving)
        return "not-yet", text
    if verdict.status is Status.HEALTHY:
        return "no", say("stop it? no: nothing is stuck")
    lead = verdict.findings[0] if verdict.findings else None
    if verdict.status is Status.SLOW:
        ranks = list(lead.ranks) if lead is not None else []
        text = say("stop it? it may recover by itself: {ranks:who} {ranks:is|are} still working", ranks=ranks)
        if facts.graph.edges and ranks:
            text = say(
                "stop it? only if {ranks:who} should be done by now: {ranks:it is|they are} still working",
                ranks=ranks,
            )
        return "may-go-on", text
    if stopped := _stopped(taken):
        pids = _pids(taken, stopped)
        text = say("stop it? not needed if {ranks:who} may resume: kill -CONT {pids}", ranks=stopped, pids=pids)
        return "continue", text
    if verdict.status is Status.UNKNOWN and not facts.graph.waiters:
        return "look-again", say("stop it? wait: no sign yet that it is stuck; sample longer with --watch-for 60")
    if lead is None or lead.certainty is not Certainty.CERTAIN:
        return "unsure", say("stop it? probably: nothing suggests it will recover, and the evidence is saved")
    return "yes", say("stop it? yes: it will not recover by itself, and the evidence is saved")


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
