"""Which tests and values of a program depend on the rank, as its data flow knows.

Two degrees: :data:`SURE` (comes from ``get_rank()``, ``os.environ["RANK"]``, ``accelerator.is_main_process``, …) and
:data:`BY_NAME` (a value of unknown origin that is called ``rank``).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from unhang.program.data_flow.function_steps import FILES, LOCAL, MEMBER, NAMED, RANK
from unhang.program.data_flow.value_origins import GROUP_RANK
from unhang.program.syntax.syntax_tree import ParsedFile, Scope, walk

if TYPE_CHECKING:
    from unhang.program.data_flow.program_flow import ProgramFlow

BY_NAME, SURE = 1, 2


class RankValues:
    """Answers whether an expression of one program depends on the rank."""

    def __init__(self, flow: ProgramFlow) -> None:
        self._flow = flow
        self._tests: dict[ast.expr, int] = {}

    def test_depends(self, test: ast.expr, scopes: Sequence[Scope]) -> int:
        """0, BY_NAME or SURE: whether two ranks can take different ways at ``test``.

        ``local_rank != -1`` and ``rank is not None`` ask whether the job is distributed at all: no.
        """
        if test not in self._tests:
            self._tests[test] = self._test_depends(test, scopes)
        return self._tests[test]

    def _test_depends(self, test: ast.expr, scopes: Sequence[Scope]) -> int:
        if isinstance(test, ast.BoolOp):
            return max(self.test_depends(one, scopes) for one in test.values)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.test_depends(test.operand, scopes)
        if isinstance(test, ast.Compare) and any(isinstance(how, ast.In | ast.NotIn) for how in test.ops):
            return max(self.value_depends(one, scopes) for one in (test.left, *test.comparators))
        term = self._flow.values_at(self._flow.calls.of_node[scopes[-1]], test.lineno).test(test).leaf
        if term is None or term.known is not None:
            return 0
        calls = [inner for inner in walk(test) if isinstance(inner, ast.Call) and FILES not in term.kinds]
        given = (value for call in calls for value in (*call.args, *(word.value for word in call.keywords)))
        own = BY_NAME if MEMBER in term.kinds else _degree(term.kinds)
        return max((own, *(self.value_depends(value, scopes) for value in given)))

    def calls_own(self, call: ast.Call, scopes: Sequence[Scope]) -> bool:
        """Whether ``call`` leads to a function of the program."""
        return bool(self._flow.calls.called(call, self._flow.calls.of_node[scopes[-1]]))

    def value_depends(self, value: ast.expr, scopes: Sequence[Scope]) -> int:
        """0, BY_NAME or SURE: whether ``value`` differs from rank to rank in a way a test or a loop can see."""
        here = self._flow.calls.of_node[scopes[-1]]
        return _degree(self._flow.values_at(here, value.lineno).of(value).kinds)


def _degree(kinds: frozenset[str]) -> int:
    if kinds & {RANK, LOCAL, GROUP_RANK}:
        return SURE
    return BY_NAME if NAMED in kinds else 0


@lru_cache(maxsize=1024)
def rank_values(program: ParsedFile) -> RankValues:
    """What one file tells by itself."""
    from unhang.program.data_flow.program_flow import flow_of_file  # most jobs that are diagnosed leave no source

    return RankValues(flow_of_file(program))
