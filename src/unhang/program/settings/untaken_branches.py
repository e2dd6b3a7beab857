"""A source without the branches that are never taken: lines stay where they are, what is never run becomes blank."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from unhang.program.syntax.syntax_tree import Scope, blocks, first_line, last_line, parse_file, replaced

Decide: TypeAlias = Callable[[ast.expr, Sequence[Scope]], "bool | None"]
"""What a test always says, in these scopes; None where it may say either."""
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class UntakenLines:
    """Lines ``first`` to ``last`` are never run: ``test`` on ``line`` always says ``truth``."""

    line: int
    test: str
    truth: bool
    first: int
    last: int


@dataclass(slots=True)
class _Walk:
    decide: Decide
    cuts: list[ast.stmt] = field(default_factory=list)
    untaken: list[UntakenLines] = field(default_factory=list)

    def block(self, block: list[ast.stmt], scopes: tuple[Scope, ...]) -> None:
        for at, statement in enumerate(block):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.block(statement.body, (*scopes, statement))
            elif isinstance(statement, ast.If | ast.While):
                if self._branch(statement, scopes) and block[at + 1 :]:
                    truth = self.decide(statement.test, scopes)
                    self._leave_out(statement, block[at + 1 :], truth=bool(truth))
                    return
            else:
                for _, _, inner in blocks(statement):
                    self.block(inner, scopes)

    def _branch(self, node: ast.If | ast.While, scopes: tuple[Scope, ...]) -> bool:
        """Whether what follows ``node`` is never reached."""
        truth = self.decide(node.test, scopes)
        if truth is not False:
            self.block(node.body, scopes)
        if truth is not True or isinstance(node, ast.While):
            self.block(node.orelse, scopes)
        if truth is None or (truth and isinstance(node, ast.While)):
            return False
        never, taken = (node.orelse, node.body) if truth else (node.body, node.orelse)
        if never:
            self._leave_out(node, never, truth=truth)
        return bool(taken) and isinstance(node, ast.If) and isinstance(taken[-1], _EXITS)

    def _leave_out(self, node: ast.If | ast.While, gone: list[ast.stmt], *, truth: bool) -> None:
        self.cuts += gone
        test = ast.unparse(node.test)
        self.untaken.append(UntakenLines(node.test.lineno, test, truth, first_line(gone[0]), last_line(gone[-1])))


def without_untaken(text: str, decide: Decide) -> tuple[str, tuple[UntakenLines, ...]]:
    """``text`` as it would run, and what was left out of it; unchanged where it is no Python."""
    program = parse_file(text)
    if isinstance(program, str):
        return text, ()
    walk = _Walk(decide)
    walk.block(program.tree.body, (program.tree,))
    if not walk.cuts:
        return text, ()
    left = replaced(text, ((one, "pass") for one in walk.cuts))
    return (text, ()) if isinstance(parse_file(left), str) else (left, tuple(walk.untaken))
