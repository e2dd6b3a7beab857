"""From a bundle that was just taken to the verdict on the live job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import WHICH_RANK, build_facts
from unhang.facts.model import Facts
from unhang.facts.waiting.pending_timeouts import limit_at_s
from unhang.findings import NotChecked, Verdict
from unhang.report.json import to_json
from unhang.watch import private_files
from unhang.watch.attach.collected_evidence import CollectedEvidence
from unhang.watch.attach.manifest import write_manifest
from unhang.watch.attach.rank_selection import permission_command
from unhang.watch.attach.stop_advice import how_to_stop, without_dead_nodes
from unhang.watch.process_state.proc_processes import path_in_container
from unhang.watch.sampling.kept_source import keep_source


@dataclass(frozen=True, slots=True)
class LiveDiagnosis:
    """The verdict and what it rests on."""

    verdict: Verdict
    facts: Facts
    limit_at_s: float | None
    """When the job's own watchdog will end it, seconds since the epoch."""


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
