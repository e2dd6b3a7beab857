"""``$((…))`` of a shell, over whole numbers."""

from __future__ import annotations

import ast
import re
from typing import Any, ClassVar

from unhang.program.launch.shell.state import ShellState
from unhang.program.syntax.evaluation import UNKNOWN, Evaluation

_NAME = re.compile(r"\$\{(\w+)\}|\$?\b([A-Za-z_]\w*)")
MAX_INTEGER = 1 << 62


def evaluate_arithmetic(words: str, state: ShellState) -> int | None:
    """The value of ``words``; None where a variable is no number, or an operation none of ours."""

    def value(found: re.Match[str]) -> str:
        known = state.value(found[1] or found[2])
        return known if isinstance(known, str) and known.strip() else "?" if known is not None else "0"

    said = _NAME.sub(value, words.strip()).replace("&&", " and ").replace("||", " or ")
    try:
        number = _WholeNumbers().value(ast.parse(said, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return int(number) if isinstance(number, int) and abs(number) < MAX_INTEGER else None


class _WholeNumbers(Evaluation):
    """A division leaves what is before the point, and a remainder has the sign of what was divided."""

    arithmetic: ClassVar = Evaluation.arithmetic | {
        ast.Div: lambda a, b: int(a / b),
        ast.Mod: lambda a, b: a - b * int(a / b),
    }

    def _compared(self, node: ast.Compare) -> Any:
        # a shell compares from the left, so that 5 > 3 > 2 asks whether 1 > 2
        return super()._compared(node) if len(node.ops) == 1 else UNKNOWN
