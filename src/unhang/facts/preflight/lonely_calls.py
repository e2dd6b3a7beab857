"""Collectives in a program that only some ranks reach: found in the source, before anything runs."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.facts.program import Program, Scope, call_name, dotted, own_nodes, parse_program
from unhang.facts.rank_branch import RankBranch, rank_branch_at

COLLECTIVES = {
    *("barrier", "monitored_barrier", "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object"),
    *("all_gather_coalesced", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"),
    *("wait_for_everyone", "gather_for_metrics", "new_group", "init_device_mesh"),
}
"""Names that are collective wherever they stand; ``gather``, ``reduce`` and ``broadcast`` are tensor methods too."""
AMBIGUOUS = {"gather", "scatter", "reduce", "broadcast", "gather_object", "broadcast_object_list", "reduce_tensor"}
_LIBRARIES = (
    "dist",
    "torch.distributed",
    "accelerator",
    "self.accelerator",
    "fabric",
    "self.fabric",
    "comm",
    "deepspeed.comm",
)
SHARDED = {
    *("state_dict", "full_tensor", "get_model_state_dict", "get_state_dict", "get_optimizer_state_dict"),
    *("clip_grad_norm_", "summon_full_params", "full_optim_state_dict", "save_16bit_model", "save_checkpoint"),
    *("save_state", "save_model"),
}
"""Calls that gather the model when its parameters are sharded."""
_CALLS = re.compile(r"\b(?:" + "|".join(sorted(COLLECTIVES | AMBIGUOUS | SHARDED)) + r")\s*\(")
_SHARDING = ("FullyShardedDataParallel", "fully_shard", "FSDP(", "deepspeed.initialize", "fsdp")


@dataclass(frozen=True, slots=True)
class LonelyCall:
    """A call on ``line`` that waits for ranks which do not come. ``sharded``: only because parameters are sharded."""

    path: str
    line: int
    call: str
    function: str
    branch: RankBranch
    sharded: bool


def lonely_calls(source: SourceFile) -> Iterator[LonelyCall]:
    """Such calls of one file, by line.

    Two calls of one name under tests of the rank in one function are a pair (``if rank: barrier() … if not rank:
    barrier()``) and are left alone: whether they meet cannot be told from the text.
    """
    if not _CALLS.search(source.text):
        return  # most files: they are not even parsed
    program = parse_program(source.text)
    if isinstance(program, str):
        return
    sharding = any(word in source.text for word in _SHARDING)
    for scope in program.owners:
        found = list(_in_scope(source, program, scope, sharding=sharding))
        times = Counter(one.call.rpartition(".")[2] for one in found)
        yield from (one for one in found if times[one.call.rpartition(".")[2]] == 1)


def _in_scope(source: SourceFile, program: Program, scope: Scope, *, sharding: bool) -> Iterator[LonelyCall]:
    calls: Sequence[ast.Call] = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: node.lineno):
        collective, sharded = is_collective(call), sharding and call_name(call) in SHARDED
        place = program.place(call.lineno) if collective or sharded else None
        branch = rank_branch_at(program, place, call.lineno) if place is not None else None
        if branch is not None and branch.sure:
            name = getattr(scope, "name", "<module>")
            yield LonelyCall(source.path, call.lineno, dotted(call.func), name, branch, not collective)


def is_collective(call: ast.Call) -> bool:
    """Whether ``call`` waits for every rank of its group."""
    name, owner = call_name(call), dotted(call.func).rpartition(".")[0]
    return name in COLLECTIVES or (name in AMBIGUOUS and owner in _LIBRARIES)
