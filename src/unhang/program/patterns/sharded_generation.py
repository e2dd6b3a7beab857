"""Answers that a model with spread parameters generates: as many forwards as this rank's own answers need."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.syntax.definitions import SourceLine
from unhang.program.syntax.syntax_tree import call_name, expression_text

_SYNC_ARGUMENT = "synced_gpus"


def unsynced_generations(ways: ProgramPaths) -> Iterator[SourceLine]:
    """Calls of ``generate`` of a model that is spread over ranks, in which ranks do not wait for the longest answer."""
    for one in ways.launch:
        for call in one.calls:
            if call_name(call) != "generate" or not isinstance(call.func, ast.Attribute):
                continue
            if ways.flow.around.wrapped.holds(_outer(call.func.value), one) == "sharded" and not _together(call):
                yield one.at(call.lineno, expression_text(call.func))


def _outer(model: ast.expr) -> ast.expr:
    """What wraps ``model``, where it is asked for the model in it: that one's parameters are spread all the same."""
    while isinstance(model, ast.Attribute) and model.attr in ("module", "_orig_mod"):
        model = model.value
    return model


def _together(call: ast.Call) -> bool:
    """It says so, or ``**options`` may."""
    for word in call.keywords:
        if word.arg is None:
            return True
        if word.arg == _SYNC_ARGUMENT:
            return not (isinstance(word.value, ast.Constant) and not word.value.value)
    return False
