"""Long work of some ranks before a collective in which the others wait, and waits that never run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from unhang.program.data_flow.function_steps import (
    LOCAL_ZERO,
    POLL,
    RANK_ZERO,
    Block,
    Branch,
    Called,
    Guarded,
    Leave,
    Loop,
    Op,
    Step,
    Work,
    inner_blocks,
    leaves,
    steps_of,
)
from unhang.program.paths.divergent_paths import At, Ways
from unhang.program.paths.next_collective import paths
from unhang.program.syntax.definitions import Defined

_MOST_DEEP = 8


@dataclass(frozen=True, slots=True)
class AloneBefore:
    """``work`` is done where ``branch`` holds; the others go on to ``waits``. ``chain``: calls down to the work."""

    branch: At
    work: At
    chain: tuple[At, ...]
    waits: At


@dataclass(frozen=True, slots=True)
class NotEntered:
    """A context manager that waits, called at ``call`` without ``with``; ``waits``: where it would."""

    call: At
    waits: At


def alone_before(ways: Ways) -> Iterator[AloneBefore]:
    """Downloads and copies of one rank, outside loops of steps too."""
    search = _Search(ways)
    for one, read in ways.reads.items():
        for path in paths(read.steps):
            step = path[-1][0][path[-1][1]]
            if not isinstance(step, Branch) or not any(x.key in (RANK_ZERO, LOCAL_ZERO) for x in leaves(step.test)):
                continue
            sides = [search.work(side, one, _MOST_DEEP) for side in (step.then, step.other)]
            found = next((side for side in sides if side is not None), None)
            if found is None or all(sides):
                continue
            waits = search.next_wait(path)
            if waits is not None:
                work, chain = found
                at = At(one.file.path, step.line, one.full_name, step.text)
                yield AloneBefore(at, _at(work), chain, _at(waits))


def not_entered(ways: Ways) -> Iterator[NotEntered]:
    """Context managers whose wait is lost because nobody enters them."""
    for one, read in ways.reads.items():
        for call, target in read.unused:
            inner = ways.reads.get(target)
            waits = [s for s in steps_of(inner.steps) if isinstance(s, Op) or _polls(s)] if inner is not None else []
            if waits and isinstance(waits[0], Op | Work):
                text = f"{target.name}()"
                yield NotEntered(At(one.file.path, call.lineno, one.full_name, text), _at(waits[0]))


def _at(step: Op | Work) -> At:
    return At(step.here.file.path, step.line, step.here.full_name, step.text)


def _ends_search(step: Step) -> TypeGuard[Op | Work | Leave]:
    """A collective, a poll, or the end of the function."""
    return isinstance(step, Op) or _polls(step) or (isinstance(step, Leave) and step.kind != "yield")


def _polls(step: Step) -> bool:
    return isinstance(step, Work) and step.kind == POLL


class _Search:
    def __init__(self, ways: Ways) -> None:
        self.ways = ways
        self._works: dict[Defined, tuple[Work, tuple[At, ...]] | None] = {}

    def work(self, block: Block, here: Defined, deep: int) -> tuple[Work, tuple[At, ...]] | None:
        """The first long work of a block that meets no collective, with the calls that lead there."""
        for step in block:
            if isinstance(step, Work) and step.kind != POLL:
                return step, ()
            found = self._called(step, here, deep) if isinstance(step, Called) else None
            for inner in inner_blocks(step):
                found = found or self.work(inner, here, deep)
            if found is not None:
                return found
        return None

    def _called(self, step: Called, here: Defined, deep: int) -> tuple[Work, tuple[At, ...]] | None:
        for target in step.targets if deep else ():
            if target not in self._works:
                self._works[target] = None
                read = self.ways.reads.get(target)
                self._works[target] = self.work(read.steps, target, deep - 1) if read is not None else None
            found = self._works[target]
            if found is not None:
                return found[0], (At(here.file.path, step.line, here.full_name, step.text), *found[1])
        return None

    def next_wait(self, path: list[tuple[Block, int]]) -> Op | None:
        """The collective that comes behind the branch in this function; none where ranks poll for something first."""
        for level in range(len(path) - 1, -1, -1):
            block, at = path[level]
            rest: Block = block[at + 1 :]
            owner = path[level - 1][0][path[level - 1][1]] if level else None
            if isinstance(owner, Guarded) and block is owner.body:
                rest = (*rest, *owner.orelse, *owner.final)
            elif isinstance(owner, Guarded) and block is not owner.final:
                rest = (*rest, *owner.final)
            met = self._met(rest, _MOST_DEEP)
            if met is not None:
                return met if isinstance(met, Op) else None
        return None

    def _met(self, block: Block, deep: int) -> Op | Work | Leave | None:
        for step in block:
            if _ends_search(step):
                return step
            found: Op | Work | Leave | None = None
            if isinstance(step, Called) and deep:
                for target in step.targets:
                    read = self.ways.reads.get(target)
                    found = found or (self._met(read.steps, deep - 1) if read is not None else None)
                found = None if isinstance(found, Leave) else found
                found = found or self._met(step.inside or (), deep)
            elif isinstance(step, Guarded):
                found = self._met((*step.body, *step.orelse, *step.final), deep)
            elif isinstance(step, Branch | Loop):
                inner = (self._met(one, deep) for one in inner_blocks(step))
                found = next((one for one in inner if one is not None and not isinstance(one, Leave)), None)
            if found is not None:
                return found
        return None
