"""What single statements are: handlers, loops that sleep, context managers."""

from __future__ import annotations

import ast

from unhang.program.data_flow.call_kinds import last_name_of
from unhang.program.data_flow.function_steps import Block, ExitStep
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name

_ROUND = {"tqdm", "iter", "islice", "zip", "trange", "enumerate", "list"}


def is_context_manager(one: FunctionDefinition) -> bool:
    """Decorated with ``@contextmanager``: nothing in it runs before ``with`` enters it."""
    names = (getattr(d, "attr", getattr(d, "id", "")) for d in getattr(one.node, "decorator_list", ()))
    return any(name in ("contextmanager", "asynccontextmanager") for name in names)


def catches_all(handler: ast.ExceptHandler) -> bool:
    """Errors of one rank's own computing are among what it catches."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {last_name_of(one) if one is not None else "Exception" for one in kinds}
    return bool(names & {"Exception", "BaseException", "RuntimeError", "OutOfMemoryError", "ValueError"})


def is_polling_loop(node: ast.While) -> bool:
    """A loop that waits for something by sleeping."""
    calls = (inner for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.Call))
    return any(call_name(call) == "sleep" for call in calls)


def looped_over(node: ast.expr) -> ast.expr:
    """What a loop goes over, without progress bars and counters around it."""
    while isinstance(node, ast.Call) and call_name(node) in _ROUND and node.args:
        node = node.args[0]
    return node


def may_fall_through(block: Block) -> bool:
    """Whoever comes out of the block goes on behind it, or ends the job with an exception."""
    return not always_exits(block) or getattr(block[-1], "kind", "") == "raise"


def always_exits(block: Block) -> bool:
    """The block is always left before its end."""
    return bool(block) and isinstance(block[-1], ExitStep) and block[-1].kind != "yield"
