"""From a bundle that was just taken to the verdict on the live job."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.facts.pending_limits import limit_at_s
from unhang.findings import Certainty, NotChecked, Verdict, say
from unhang.report.json import to_json
from unhang.watch import private_files
from unhang.watch.attach.choosing import permission_command
from unhang.watch.attach.stopping import how_to_stop, without_dead_nodes
from unhang.watch.attach.taking import Taken


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict and what it rests on."""

    verdict: Verdict
    facts: Facts
    limit_at_s: float | None
    """When the job's own watchdog will end it, seconds since the epoch."""


def conclude(taken: Taken) -> Conclusion:
    """Diagnose the bundle in-process and leave ``verdict.json`` in it."""
    facts = build_facts(read_evidence([str(taken.folder)]))
    verdict = diagnose(facts)
    limit = limit_at_s(facts)
    now_s = time.time()
    verdict = replace(
        verdict,
        not_checked=(*_not_looked_at(taken), *verdict.not_checked),
        stalled_since=verdict.stalled_since or _since(facts),
        killed_in_s=round(max(0.0, limit - now_s), 1) if limit is not None else None,
    )
    verdict = replace(
        verdict,
        restart=without_dead_nodes(taken, verdict.restart),
        stop=how_to_stop(taken, verdict, facts),
    )
    private_files.replace(taken.folder / "verdict.json", to_json(verdict).encode())
    return Conclusion(verdict, facts, limit)


def _since(facts: Facts) -> str | None:
    """When the last of the pending collectives began: nobody has moved since."""
    begun = [
        progress.pending.since_s
        for group in facts.groups.values()
        for progress in group.progress.values()
        if progress.pending is not None and progress.pending.since_s is not None
    ]
    if not begun:
        return None
    return datetime.fromtimestamp(max(begun), tz=timezone.utc).isoformat(timespec="seconds")


def _not_looked_at(taken: Taken) -> tuple[NotChecked, ...]:
    found: list[NotChecked] = []
    by_reason: dict[str, list[int]] = {}
    for rank, reason in taken.refused().items():
        by_reason.setdefault(reason, []).append(rank)
    top = taken.chosen.launcher or taken.chosen.ranks[0].pid
    for reason, ranks in sorted(by_reason.items()):
        how = "pip install py-spy" if "not installed" in reason else permission_command([top])
        found.append(
            NotChecked(
                say("the stacks of {ranks:who}", ranks=ranks),
                say("{reason}; only the process states were seen", reason=reason),
                how=how,
                caps=Certainty.LIKELY,
            )
        )
    if any(rank.guessed for rank in taken.chosen.ranks):
        found.append(
            NotChecked(
                say("which process is which rank"),
                say("their environments do not tell; ranks are numbered in the order they started"),
                how=permission_command([top]) if taken.chosen.foreign else "",
            )
        )
    return tuple(found)
