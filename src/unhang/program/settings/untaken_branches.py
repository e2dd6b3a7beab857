"""A source without the branches that are never taken: lines stay where they are, what is never run becomes blank."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from unhang.program.syntax.syntax_tree import Scope, blanked, blocks, first_line, last_line, parse_file

Decide: TypeAlias = Callable[[ast.expr, Sequence[Scope]], "bool | None"]
"""What a test always says, in these scopes; None where it may say either."""
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_STATIC = ("__main__", "TYPE_CHECKING", "if True", "if False", "if 0", "if 1")


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
    cuts: list[tuple[list[ast.stmt], bool]] = field(default_factory=list)
    """Statements to take away; True: they are all of their block."""
    untaken: list[UntakenLines] = field(default_factory=list)

    def block(self, block: list[ast.stmt], scopes: tuple[Scope, ...]) -> None:
        for at, statement in enumerate(block):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.block(statement.body, (*scopes, statement))
            elif isinstance(statement, ast.If | ast.While):
                if self._branch(statement, scopes) and block[at + 1 :]:
                    truth = self.decide(statement.test, scopes)
                    self._leave_out(statement, block[at + 1 :], whole=False, truth=bool(truth))
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
            self._leave_out(node, never, whole=True, truth=truth)
        return bool(taken) and isinstance(node, ast.If) and isinstance(taken[-1], _EXITS)

    def _leave_out(self, node: ast.If | ast.While, gone: list[ast.stmt], *, whole: bool, truth: bool) -> None:
        self.cuts.append((gone, whole))
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
    left = blanked(text, walk.cuts)
    return (text, ()) if left is None else (left, tuple(walk.untaken))


def static_truth(test: ast.expr, *, is_main: bool) -> bool | None:
    """What every run knows: constants, ``__name__ == "__main__"`` and ``TYPE_CHECKING``."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Name | ast.Attribute):
        return False if getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING" else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    sides = {getattr(side, "id", getattr(side, "value", None)) for side in (test.left, *test.comparators)}
    if sides != {"__name__", "__main__"} or not isinstance(test.ops[0], ast.Eq | ast.NotEq):
        return None
    return is_main == isinstance(test.ops[0], ast.Eq)


def statically_live(text: str, *, is_main: bool) -> str:
    """``text`` without what no run of it as the script, or as a module, would do."""
    if not any(word in text for word in _STATIC):
        return text
    return without_untaken(text, lambda test, _: static_truth(test, is_main=is_main))[0]
