"""A process group that only its members make, or that is made of other ranks on other processes.

What happens: ``new_group`` is called in a branch that only members take, or with a list of the process's own ranks.

Why it hangs: every rank of the job must make every group, in the same order, members or not: groups are told apart by
how many were made before. Ranks that made others, or none, wait for each other under one name.

Example: ``group = dist.new_group(my_ranks)`` with one list a pipeline; ``if rank in ranks: dist.new_group(ranks)``.

Fix: every rank goes through the lists of all groups, and keeps its own.

Certain when: never; with one group alone all ranks hold the same list.

Possible when: the list was followed to the rank or to a list that each process has of its own, or the branch asks for
membership.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.program.program_places import found_in, quotes
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.paths.divergent_paths import SourceLine
from unhang.program.patterns.group_creation import PerRankGroup, per_rank_groups
from unhang.program.program_source import ProgramSource
from unhang.sentences import Text, say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each call."""
    return found_in(here, lambda ways: per_rank_groups(ways.reads), _finding)


def _finding(one: PerRankGroup, program: ProgramSource) -> Answer:
    op = one.call
    at = SourceLine(op.here.file.path, op.line, op.here.full_name, op.text)
    test = SourceLine(at.path, one.line, at.function, one.test) if one.test else None
    return risk(
        CHECK,
        f"{at.path}:{at.line}",
        Cause.RANK_CONDITIONAL_COLLECTIVE,
        _summary(one),
        certainty=Certainty.POSSIBLE,
        where=Where(at.path, at.line, at.function),
        because=(say("every rank must make every group, in the same order, also the groups it is no member of"),),
        evidence=tuple(quotes(program, (test, at))),
        remedies=(
            Remedy(
                say("Make all groups on all ranks, and keep the own one"),
                RemedyKind.CODE,
                say("for ranks in every:\n    made = dist.new_group(ranks)\n    if rank in ranks: group = made"),
                say("none"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )


def _summary(one: PerRankGroup) -> Text:
    if one.test:
        return say(
            "only members make the group in {call}: {test} (line {line})",
            call=one.call.text,
            test=one.test,
            line=one.line,
        )
    return say("{call} gets other ranks on other processes: {ranks}", call=one.call.text, ranks=one.ranks)
