"""Ranks whose stack could not be sampled from outside, and the command for who may."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from unhang.evidence.own_files.run_items import RankProcess
from unhang.facts.model import Facts
from unhang.findings import Certainty, NotChecked
from unhang.sentences import say


def unreadable_stacks(facts: Facts) -> Iterator[NotChecked]:
    """One gap for each reason. What the ranks' own records name is one thread of several, so nothing is certain."""
    together: dict[tuple[str, bool], list[RankProcess]] = defaultdict(list)
    for manifest in facts.manifests:
        for process in manifest.processes:
            if process.not_seen:
                together[process.not_seen, process.from_record].append(process)
    for (reason, from_record), processes in sorted(together.items()):
        ranks = tuple(sorted(process.rank for process in processes))
        yield NotChecked(
            say("all threads of {ranks:who}", ranks=ranks)
            if from_record
            else say("what {ranks:who} {ranks:was|were} doing", ranks=ranks),
            say("{reason}; one thread is known from the record the rank keeps", reason=reason)
            if from_record
            else say("{reason}; only the process state was seen", reason=reason),
            how=_how(reason, processes),
            caps=Certainty.LIKELY,
        )


def _how(reason: str, processes: list[RankProcess]) -> str:
    if "not installed" in reason:
        return "pip install py-spy"
    pid = next((process.pid for process in processes if process.pid is not None), "PID")
    return f"sudo py-spy dump --pid {pid} (a container needs --cap-add=SYS_PTRACE)"
