"""Names, calls, decorators and variables of the environment that tell the rank by how they are spelled."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from unhang.program.data_flow.function_steps import LOCAL, LOCAL_ZERO, NAMED, RANK, RANK_ZERO
from unhang.program.data_flow.value_origins import GROUP_RANK, PLAIN_VALUE, ValueOrigin
from unhang.program.syntax.syntax_tree import call_name

RANK_ENVIRONMENT = {
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
    "NODE_RANK",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "GLOBAL_RANK",
}
RANK_CALLS = {
    "get_rank",
    "get_local_rank",
    "get_global_rank",
    "get_node_rank",
    "get_node_local_rank",
    "get_world_rank",
    "local_rank",
    "get_process_index",
    "is_main_process",
    "is_local_main_process",
    "is_rank_zero",
    "is_rank_0",
    "is_rank0",
    "Get_rank",
    "is_world_process_zero",
    "is_local_process_zero",
    "is_global_zero",
    "get_data_parallel_rank",
    "get_dp_rank",
    "get_tensor_model_parallel_rank",
    "get_pipeline_model_parallel_rank",
    "is_pipeline_first_stage",
    "is_pipeline_last_stage",
    "get_context_parallel_rank",
    "get_expert_model_parallel_rank",
    "get_group_rank",
    "get_coordinate",
    "is_main_rank",
    "is_last_rank",
    "is_local_first_process",
}
SURE_NAMES = {
    "local_rank",
    "global_rank",
    "world_rank",
    "node_rank",
    "dist_rank",
    "ddp_rank",
    "ddp_local_rank",
    "dp_rank",
    "tp_rank",
    "pp_rank",
    "cp_rank",
    "ep_rank",
    "fsdp_rank",
    "data_parallel_rank",
    "tensor_parallel_rank",
    "pipeline_rank",
    "process_index",
    "local_process_index",
    "process_rank",
    "is_main_process",
    "is_local_main_process",
    "is_global_zero",
    "is_world_process_zero",
    "is_local_process_zero",
    "is_rank_zero",
    "is_rank_0",
    "is_rank0",
    "is_first_rank",
    "is_last_rank",
    "is_last_process",
    "is_distributed_main",
    "LOCAL_RANK",
    "GLOBAL_RANK",
}
LIKELY_NAMES = {
    "rank",
    "RANK",
    "my_rank",
    "myrank",
    "is_main",
    "is_master",
    "is_master_process",
    "master_process",
    "main_process",
    "is_primary",
    "is_chief",
    "is_main_rank",
    "is_rank_one",
    "proc_id",
    "process_id",
    "local_process_id",
}
PASSES_ON = {
    "int",
    "bool",
    "str",
    "float",
    "min",
    "max",
    "abs",
    "len",
    "range",
    "enumerate",
    "zip",
    "islice",
    "list",
    "tuple",
    "sorted",
    "reversed",
    "iter",
    "tqdm",
    "trange",
    "sum",
    "round",
    "divmod",
    "pow",
    "next",
    "get",
    "item",
    "strip",
    "cycle",
    "chain",
    "any",
    "all",
}
RANK_DECORATORS = {
    "rank_zero_only",
    "on_main_process",
    "on_local_main_process",
    "on_process",
    "on_last_process",
    "on_local_process",
    "main_process_only",
    "master_only",
    "master_process_only",
    "rank_zero",
    "only_on_main_process",
    "rank0_only",
    "main_rank_only",
    "is_main_process_only",
}

_MAINS = ("main", "master", "zero", "chief", "primary", "rank_0", "rank0", "is_first_rank")


def value_of_name(name: str) -> ValueOrigin:
    """What a name alone tells."""
    if name not in SURE_NAMES and name not in LIKELY_NAMES:
        return PLAIN_VALUE
    local = "local" in name.lower()
    if any(word in name for word in _MAINS):
        sure = name in SURE_NAMES
        return ValueOrigin(frozenset({RANK if sure else NAMED}), (LOCAL_ZERO if local else RANK_ZERO, True))
    if local:
        return ValueOrigin(frozenset({LOCAL}))
    whole = name in ("rank", "RANK", "my_rank", "myrank", "proc_id", "process_id", "global_rank", "world_rank")
    if name in SURE_NAMES and not whole and not name.startswith(("process", "dist", "ddp", "GLOBAL")):
        return ValueOrigin(frozenset({GROUP_RANK}))
    return ValueOrigin(frozenset({RANK if name in SURE_NAMES else NAMED}))


def value_of_call(name: str, node: ast.Call) -> ValueOrigin:
    """What the name of a call tells."""
    if any(word in name for word in _MAINS):
        return ValueOrigin(frozenset({RANK}), (LOCAL_ZERO if "local" in name else RANK_ZERO, True))
    if "local" in name:
        return ValueOrigin(frozenset({LOCAL}))
    if name in ("get_rank", "Get_rank", "get_global_rank", "get_world_rank", "get_process_index") and not node.args:
        return ValueOrigin(frozenset({RANK}) if not node.keywords else frozenset({GROUP_RANK}))
    return ValueOrigin(frozenset({GROUP_RANK})) if name in RANK_CALLS else PLAIN_VALUE


def value_of_variable(name: str) -> ValueOrigin:
    """What a variable of the environment tells."""
    if name not in RANK_ENVIRONMENT:
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
    if not call.args or getattr(call.args[0], "value", None) not in RANK_ENVIRONMENT:
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
        if getattr(target, "attr", getattr(target, "id", "")) in RANK_DECORATORS:
            return decorator
    return None
