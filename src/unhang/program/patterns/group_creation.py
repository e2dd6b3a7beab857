"""Process groups that not every rank makes, or that ranks make of different members in the same call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unhang.program.data_flow.function_reader import Read
from unhang.program.data_flow.function_steps import MEMBER, Branch, Op, leaves
from unhang.program.paths.next_collective import paths
from unhang.program.syntax.definitions import Defined


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """``call`` makes another group on another rank. ``ranks``: what it is given; ``test``: the branch that only
    members take, where there is one."""

    call: Op
    ranks: str = ""
    test: str = ""
    line: int = 0


def own_groups(reads: Mapping[Defined, Read]) -> Iterator[OwnGroup]:
    """Such calls, in all functions that were read."""
    for read in reads.values():
        own = {op for op, _ in read.own_groups}
        for op, ranks in read.own_groups:
            yield OwnGroup(op, ranks)
        for path in paths(read.steps):
            step = path[-1][0][path[-1][1]]
            if not isinstance(step, Op) or step.name != "new_group" or step in own:
                continue
            around = (block[at] for block, at in path[:-1])
            tests = [one for one in around if isinstance(one, Branch) and _for_members(one)]
            if tests:
                yield OwnGroup(step, "", tests[-1].text, tests[-1].line)


def _for_members(one: Branch) -> bool:
    return any(MEMBER in leaf.kinds for leaf in leaves(one.test)) and not (one.then and one.other)
