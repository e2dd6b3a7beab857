"""Constants that a call hands to a function, and what the function's own tests say then.

``def wait(rank): if rank not in (-1, 0): barrier()`` meets nothing where it is called as ``wait(-1)``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.evaluation import UNKNOWN, Evaluation
from unhang.program.syntax.syntax_tree import Scope, names_in, own_nodes, parameters_of, parse_expression

Constants = frozenset[tuple[str, object]]
"""Parameters of a function, with the constant each holds."""
NO_CONSTANTS: Constants = frozenset()
ConstantArguments = tuple[tuple[str, object], ...]
"""Parameters with what they get: a constant, or the name of a parameter of the caller (``ast.Name``)."""


def constant_arguments(
    node: ast.Call, here: FunctionDefinition, calls: CallGraph
) -> Mapping[FunctionDefinition, ConstantArguments]:
    """What ``node`` in ``here`` hands to each function it leads to, for parameters that decide something there."""
    found: dict[FunctionDefinition, ConstantArguments] = {}
    for target, given in calls.arguments(node, here):
        asked = _deciding(target.node)
        if asked:
            open_ended = any(isinstance(one, ast.Starred) for one in node.args) or any(not w.arg for w in node.keywords)
            told = {} if open_ended else parameters_of(target.node)
            defaults = {name: value for name, (_, value) in told.items() if value is not None}
            every = {**defaults, **given}
            handed = ((name, _handed(every[name], here)) for name in asked if name in every)
            found[target] = tuple(pair for pair in handed if pair[1] is not UNKNOWN)
    return found


def callee_constants(handed: ConstantArguments, constants: Constants) -> Constants:
    """The constants that a called function's parameters hold, where its caller's hold ``constants``."""
    if not handed:
        return NO_CONSTANTS
    own = dict(constants)
    found = ((name, own.get(value.id, UNKNOWN) if isinstance(value, ast.Name) else value) for name, value in handed)
    return frozenset(pair for pair in found if pair[1] is not UNKNOWN)


def evaluate_test(text: str, constants: Constants) -> bool | None:
    """What a test, as the source spells it, says where its names hold ``constants``; None where that is not known."""
    test = parse_expression(text)
    if test is None:
        return None
    return _OfConstants(dict(constants)).truth(test)


def _handed(value: ast.expr, here: FunctionDefinition) -> object:
    if isinstance(value, ast.Name):
        plain = value.id in parameters_of(here.node) and not assigned_values(here.node, value.id)
        return value if plain else UNKNOWN
    held = _OfConstants({}).value(value)
    held = tuple(held) if isinstance(held, list) else held
    try:
        hash(held)
    except TypeError:  # a dictionary, or a list in a list, is not compared
        return UNKNOWN
    return held


class _OfConstants(Evaluation):
    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = names

    def held(self, node: ast.expr) -> object:
        return self.names.get(node.id, UNKNOWN) if isinstance(node, ast.Name) else UNKNOWN


@lru_cache(maxsize=20_000)
def _deciding(scope: Scope) -> frozenset[str]:
    """Parameters that a test asks for, or that are handed on, and that nothing else is assigned to."""
    parameters = parameters_of(scope).keys()
    found: set[str] = set()
    for node in own_nodes(scope) if parameters else ():
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            found |= names_in(node.test)
        elif isinstance(node, ast.Call):
            given = (*node.args, *(word.value for word in node.keywords))
            found |= {one.id for one in given if isinstance(one, ast.Name)}
    return frozenset(name for name in found & parameters if not assigned_values(scope, name))
