"""Process groups that not every rank makes, or that ranks make of different members in the same call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unhang.program.data_flow.function_steps import MEMBER, BranchStep, CollectiveStep, FunctionReading
from unhang.program.paths.next_collective import paths_to_steps
from unhang.program.syntax.definitions import FunctionDefinition


@dataclass(frozen=True, slots=True)
class PerRankGroup:
    """``call`` makes another group on another rank. ``ranks``: what it is given; ``test``: the branch that only
    members take, where there is one."""

    call: CollectiveStep
    ranks: str = ""
    test: str = ""
    line: int = 0


def per_rank_groups(reads: Mapping[FunctionDefinition, FunctionReading]) -> Iterator[PerRankGroup]:
    """Such calls, in all functions that were read."""
    for read in reads.values():
        own = {op for op, _ in read.own_groups}
        for op, ranks in read.own_groups:
            yield PerRankGroup(op, ranks)
        for step, path in paths_to_steps(read.steps):
            if not isinstance(step, CollectiveStep) or step.name != "new_group" or step in own:
                continue
            around = (block[at] for block, at in path[:-1])
            tests = [one for one in around if isinstance(one, BranchStep) and _for_members(one)]
            if tests:
                yield PerRankGroup(step, "", tests[-1].text, tests[-1].line)


def _for_members(one: BranchStep) -> bool:
    return MEMBER in one.test.kinds and not (one.then and one.other)
