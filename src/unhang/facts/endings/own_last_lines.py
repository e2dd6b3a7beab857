"""The last line of a rank that no other rank printed, and what it caught: with their place in the program.

What a rank says as it goes its own way stands right above the stall: that it skips a batch, that a handler caught an
exception, that it saves. Outputs that run into one file name no rank: there a line counts that one process printed
once, from a place that each rank reaches or not by what it finds itself.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from unhang.evidence.items import Frame, LastLine, LogReading
from unhang.facts.endings.crashes import was_handled
from unhang.facts.evidence_quotes import quote_line, quote_traceback
from unhang.facts.model import Facts
from unhang.findings import Evidence
from unhang.program.rank_dependence.rank_branches import rank_branch_at
from unhang.program.rank_dependence.rank_values import BY_NAME, rank_values
from unhang.program.rank_dependence.same_on_all_ranks import may_differ_by_rank
from unhang.program.rank_dependence.value_for_rank import test_value
from unhang.program.syntax.print_statements import find_print_statement
from unhang.program.syntax.syntax_tree import LinePosition, NestingLevel, expression_text, find_line

_NUMBERS = re.compile(r"\d+")
_SHAPE_CHARS = 200
_LAST = 2
"""Lines of a rank: what it skipped, and what it did instead."""
_MAX_RANKS = 4
_JUMPS = (ast.Break, ast.Continue, ast.Return)


@dataclass(frozen=True, slots=True)
class OwnLine:
    """``evidence.rank`` is None where the output does not tell who printed it: one process did."""

    evidence: Evidence
    file: str = ""
    """Of the statement that printed it, by its last part; empty where none is known, or several may have."""
    line: int | None = None
    """Of the test or the handler that led to it, else of the statement."""
    test: str = ""
    """Innermost around the statement, where ranks may answer it differently."""
    caught: bool = False
    """It was printed in a handler; or it is an exception itself, and ``line`` that of its handler."""
    jump: str = ""
    """How the block ends in which it was printed: ``continue``."""
    jump_line: int | None = None
    branch: int | None = None
    """Line of the branch on the rank that holds the test: the others never come to it."""

    @property
    def parts_ranks(self) -> bool:
        """What led to it is for each rank to decide."""
        return bool(self.test) or (self.caught and bool(self.file))


def own_last_lines(facts: Facts, ranks: Sequence[int]) -> Iterator[OwnLine]:
    """The latest of each of ``ranks``; where none of their lines names them, the latest that one process printed."""
    told = [line for rank in ranks[:_MAX_RANKS] if (line := _of_rank(facts, rank, ranks)) is not None]
    yield from told or list(_of_nobody(facts, ranks))[:1]


def caught_exceptions(facts: Facts, ranks: Sequence[int]) -> Iterator[OwnLine]:
    """The latest exception that one of ``ranks`` printed, or one process of an output of all, and outlived; in logs
    alone nothing tells how long ago."""
    told = Counter((one.exception, one.message) for one in facts.tracebacks)
    own = [one for one in facts.tracebacks if one.rank is None or one.rank in ranks]
    for one in reversed(own) if facts.manifests else ():
        if told[one.exception, one.message] == 1 and not one.chained and was_handled(one, facts):
            file, line = _handler(facts, one.frames, one.exception)
            yield OwnLine(quote_traceback(one), file, line, caught=True)
            return


def _handler(facts: Facts, frames: Sequence[Frame], exception: str) -> tuple[str, int | None]:
    """Of the innermost ``try`` around the frames that takes such an exception."""
    for frame in frames:
        place = find_line(facts.sources, frame.file, frame.line)
        for level in reversed(place.levels if place is not None else ()):
            if not isinstance(level.owner, ast.Try) or level.part != "body":
                continue
            for handler in level.owner.handlers:
                if handler.type is None or _takes(expression_text(handler.type), exception):
                    return PurePosixPath(frame.file).name, handler.lineno
    return "", None


def handler_around(facts: Facts, frames: Sequence[Frame]) -> tuple[str, str] | None:
    """(place, what it catches) of the ``except`` in which the frames stand."""
    for frame in frames:
        place = find_line(facts.sources, frame.file, frame.line)
        for level in reversed(place.levels if place is not None else ()):
            if isinstance(level.owner, ast.ExceptHandler):
                caught = level.owner.type
                where = f"{PurePosixPath(frame.file).name}:{level.owner.lineno}"
                return where, f" {expression_text(caught)}" if caught is not None else ""
    return None


def _takes(caught: str, exception: str) -> bool:
    names = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", caught)}
    return bool(names & {"Exception", "BaseException", exception.rpartition(".")[2]})


def _of_rank(facts: Facts, rank: int, ranks: Sequence[int]) -> OwnLine | None:
    """Its latest: one from a place that not all ranks reach; or, of a rank that was seen alive, the last of all it
    said, with little behind it. Of others the last line may be of their end."""
    others = set(facts.ranks).difference(ranks) or set(facts.ranks) - {rank}
    known = facts.ranks.get(rank)
    alive = bool(facts.manifests) and known is not None and known.alive
    theirs = {_shape(line) for log in _outputs(facts) for line in log.said if line.rank in others}
    for log in _outputs(facts):
        mine = [line for line in log.said if line.rank == rank]
        latest = [line for line in mine[-_LAST:] if line in log.said[-len(facts.ranks) - _LAST :]]
        for line in _rare(mine, 1):
            placed = _placed(facts, line, rank) if _shape(line) not in theirs else None
            if placed is not None and (placed.parts_ranks or (line in latest and alive)):
                return placed
    return None


def _outputs(facts: Facts) -> Iterator[LogReading]:
    """Without what we wrote ourselves of exceptions that nobody caught."""
    yield from (log for log in facts.logs if not log.source.path.endswith(".except"))


def _of_nobody(facts: Facts, ranks: Sequence[int]) -> Iterator[OwnLine]:
    """Not all ranks can have printed it."""
    for log in _outputs(facts):
        for line in _rare([line for line in log.said if line.rank is None], (facts.world_size or 2) - 1):
            placed = (_placed(facts, line, rank) for rank in ranks)
            yield from [one for one in placed if one is not None and one.parts_ranks][:1]


def _rare(lines: Sequence[LastLine], most: int) -> Iterator[LastLine]:
    """The last first, of kinds that were printed so often ``most``: what is said again and again is no news."""
    shapes = Counter(map(_shape, lines))
    yield from (line for line in reversed(lines) if shapes[_shape(line)] <= most)


def _shape(line: LastLine) -> str:
    return _NUMBERS.sub("#", line.text[:_SHAPE_CHARS])


def _placed(facts: Facts, line: LastLine, rank: int) -> OwnLine | None:
    """With its place in the program, where the statement is known that printed it; None where ``rank`` never comes to
    that."""
    printed_at = find_print_statement(line.text, facts.sources)
    place = find_line(facts.sources, printed_at.file, printed_at.line) if printed_at is not None else None
    if printed_at is None or place is None:
        return OwnLine(quote_line(line))
    quote, file = quote_line(line), PurePosixPath(printed_at.file).name
    if any(test_value(_asked(level), rank, facts.world_size) is False for level in place.levels):
        return None
    for level in reversed(place.levels):
        owner = level.owner
        if isinstance(owner, ast.ExceptHandler):
            return OwnLine(quote, file, owner.lineno, caught=True)
        if isinstance(owner, ast.If) and _differs(place, owner, rank, facts.world_size):
            return OwnLine(quote, file, owner.lineno, _asked(level), False, *_jump(level), _branch(place, owner.lineno))
    return OwnLine(quote, file, printed_at.line)


def _asked(level: NestingLevel) -> str:
    """The test of its ``if``, turned round in the ``else``; empty for other blocks."""
    if not isinstance(level.owner, ast.If):
        return ""
    test = level.owner.test
    return expression_text(test if level.part == "body" else ast.UnaryOp(ast.Not(), test))


def _differs(place: LinePosition, owner: ast.If, rank: int, world_size: int | None) -> bool:
    """Its test may come out otherwise on one rank than on the others, and does not ask who it is: what one rank always
    prints for all is no news."""
    test = owner.test
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    values = rank_values(place.program)
    asks = any(
        test_value(expression_text(part), rank, world_size) is not None
        or values.test_depends(part, place.scopes) == BY_NAME
        for part in parts
    )
    return not asks and any(may_differ_by_rank(place.program, part, place.scopes, owner.lineno) for part in parts)


def _branch(place: LinePosition, line: int) -> int | None:
    """The line of the branch on the rank around ``line``: of its ``if``, where it is an ``elif``."""
    branch = rank_branch_at(place.program, place, line)
    if branch is None:
        return None
    first = branch.line
    for level in reversed(place.levels):
        if isinstance(level.owner, ast.If) and level.part == "orelse" and level.statement.lineno == first:
            first = level.owner.lineno
    return first


def _jump(level: NestingLevel) -> tuple[str, int | None]:
    last = level.block[-1]
    return (type(last).__name__.lower(), last.lineno) if isinstance(last, _JUMPS) else ("", None)
