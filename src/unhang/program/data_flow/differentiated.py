"""What a model gives in the step whose loss goes backward: it is made of this rank's own batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from unhang.program.data_flow.models import MODULES
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name, names_in, own_nodes


def differentiated_calls(here: FunctionDefinition, calls: CallGraph) -> frozenset[ast.Call]:
    """Calls of the program's own models, of whose results something is made that goes backward in ``here``."""
    made_of = {name for call in here.calls if call_name(call) == "backward" for name in _given(call)}
    if not made_of:
        return frozenset()
    assigned = [node for node in own_nodes(here.node) if isinstance(node, ast.Assign)]
    found: set[ast.Call] = set()
    count = -1
    while len(made_of) + len(found) > count:
        count = len(made_of) + len(found)
        for node in assigned:
            if any(made_of & names_in(target) for target in node.targets):
                if isinstance(node.value, ast.Call) and _calls_model(node.value, here, calls):
                    found.add(node.value)
                else:
                    made_of |= names_in(node.value)
    return frozenset(found)


def _given(call: ast.Call) -> Iterator[str]:
    """``loss`` of ``loss.backward()``, ``scaler.scale(loss).backward()`` and ``engine.backward(loss)``."""
    behind = [call.func.value] if isinstance(call.func, ast.Attribute) and not call.args else []
    for node in (*call.args[:1], *behind):
        yield from names_in(node)


def _calls_model(call: ast.Call, here: FunctionDefinition, calls: CallGraph) -> bool:
    owners = (one.owner for one in calls.called(call, here) if one.name != "__init__")
    return any(owner is not None and calls.table.derives_from(owner, MODULES) for owner in owners)
