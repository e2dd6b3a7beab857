"""Names, calls, decorators and variables of the environment that tell the rank by how they are spelled."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from unhang.knowledge.collectives import source_names
from unhang.program.data_flow.function_steps import LOCAL, LOCAL_ZERO, NAMED, RANK, RANK_ZERO
from unhang.program.data_flow.value_origins import GROUP_RANK, PLAIN_VALUE, ValueOrigin
from unhang.program.syntax.syntax_tree import call_name

_MAINS = ("main", "master", "zero", "chief", "primary", "rank_0", "rank0", "is_first_rank")


def is_matrix_rank(name: str, *around: str) -> bool:
    """``lora.rank``, or ``rank`` in ``LoRALinear.__init__``: that of a matrix, by what the names ``around`` it say."""
    return name == "rank" and any(word in one.lower() for one in around for word in source_names("has_matrix_rank"))


def value_of_name(name: str, *around: str) -> ValueOrigin:
    """What a name alone tells; ``around``: of the function and the class that it stands in."""
    sure = name in source_names("rank")
    if (not sure and name not in source_names("perhaps_rank")) or is_matrix_rank(name, *around):
        return PLAIN_VALUE
    local = "local" in name.lower()
    if any(word in name for word in _MAINS):
        return ValueOrigin(frozenset({RANK if sure else NAMED}), (LOCAL_ZERO if local else RANK_ZERO, True))
    if local:
        return ValueOrigin(frozenset({LOCAL}))
    whole = name in ("rank", "RANK", "my_rank", "myrank", "proc_id", "process_id", "global_rank", "world_rank")
    if sure and not whole and not name.startswith(("process", "dist", "ddp", "GLOBAL")):
        return ValueOrigin(frozenset({GROUP_RANK}))
    return ValueOrigin(frozenset({RANK if sure else NAMED}))


def value_of_call(name: str, node: ast.Call) -> ValueOrigin:
    """What the name of a call tells."""
    if any(word in name for word in _MAINS):
        return ValueOrigin(frozenset({RANK}), (LOCAL_ZERO if "local" in name else RANK_ZERO, True))
    if "local" in name:
        return ValueOrigin(frozenset({LOCAL}))
    if name in ("get_rank", "Get_rank", "get_global_rank", "get_world_rank", "get_process_index") and not node.args:
        return ValueOrigin(frozenset({RANK}) if not node.keywords else frozenset({GROUP_RANK}))
    return ValueOrigin(frozenset({GROUP_RANK})) if name in source_names("rank_call") else PLAIN_VALUE


def value_of_variable(name: str) -> ValueOrigin:
    """What a variable of the environment tells."""
    if name not in source_names("rank_variable"):
        return PLAIN_VALUE
    if name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "GLOBAL_RANK"):
        return ValueOrigin(frozenset({RANK}))
    return ValueOrigin(frozenset({LOCAL if "LOCAL" in name else GROUP_RANK}))


def rank_zero_key(kinds: frozenset[str]) -> str:
    """The key of ``rank == 0``; empty where another number than that of the whole job takes part."""
    if GROUP_RANK in kinds:
        return ""
    return LOCAL_ZERO if LOCAL in kinds else RANK_ZERO


def asks_environment(call: ast.Call) -> bool:
    """``os.environ.get("RANK")`` and its kin."""
    if not call.args or getattr(call.args[0], "value", None) not in source_names("rank_variable"):
        return False
    if call_name(call) == "getenv":
        return True
    return call_name(call) in ("get", "pop") and isinstance(call.func, ast.Attribute) and is_environ(call.func.value)


def is_environ(node: ast.AST) -> bool:
    """``os.environ``."""
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id in ("environ", "env")
    )


def rank_decorator(function: ast.AST) -> ast.expr | None:
    """The decorator that lets only some ranks run ``function``, or None."""
    decorators: Iterable[ast.expr] = getattr(function, "decorator_list", ())
    for decorator in decorators:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if getattr(target, "attr", getattr(target, "id", "")) in source_names("rank_decorator"):
            return decorator
    return None
