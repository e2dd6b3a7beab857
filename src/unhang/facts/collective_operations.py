"""What may differ between ranks in one collective, and what may not.

Source: torch/distributed/flight_recorder (2.13) for the names, torch/csrc/distributed/c10d/Types.hpp and the
documentation of each collective for which sizes are free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from unhang.evidence.items import Signature

_ALIASES = {
    "_allgather_base": "all_gather_into_tensor",
    "_all_gather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather_coalesced",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_v_single": "all_to_all_single",
    "all_reduce_barrier": "barrier",
}

# Each rank brings as much as it likes (or nothing): sizes say nothing about a mismatch.
_FREE_SIZES = {"all_to_all", "all_to_all_single", "gather", "scatter", "all_gather_v", "reduce_scatter_v", "coalesced"}
# What the name of a function adds to that of the collective it makes.
_FORMS = {"", "_into_tensor", "_tensor", "_single", "_object", "_object_list", "_coalesced"}
# Names that hide what is inside.
_OPAQUE = {"coalesced", "split", "new_window", ""}
POINT_TO_POINT = {"send", "recv", "isend", "irecv", "batch_isend_irecv"}


def canonical_operation(operation: str) -> str:
    """One name per operation over backends and versions: ``_allgather_base`` is ``all_gather_into_tensor``."""
    lowered = operation.lower()
    return _ALIASES.get(lowered, lowered)


def may_be_recorded_as(called: str, recorded: str) -> bool:
    """Whether a call of the function ``called`` may stand in a record as ``recorded``: Gloo knows one all-gather, which
    ``all_gather_into_tensor`` and ``all_gather_object`` come to as well."""
    whole, part = canonical_operation(called), canonical_operation(recorded)
    return whole.startswith(part) and whole[len(part) :] in _FORMS


def signature_differences(signatures: Collection[Signature]) -> tuple[str, ...]:
    """In what ranks disagree that called these at one position: among ``operation``, ``size``, ``dtype``.

    Empty when the calls fit together, also where they look different but may (uneven all-to-all, scatter's root).
    """
    operations = {canonical_operation(s.operation) for s in signatures}
    if operations & _OPAQUE:
        return ()
    if len(operations) > 1:
        return ("operation",)
    (operation,) = operations
    found = []
    if operation not in _FREE_SIZES and not _sizes_fit(operation, signatures):
        found.append("size")
    dtypes = {s.input_dtypes for s in signatures if s.input_dtypes}
    if operation != "barrier" and len({frozenset(d) for d in dtypes}) > 1:
        found.append("dtype")
    return tuple(found)


def signature_text(signature: Signature) -> str:
    """The part of a signature that all ranks must share, as text; sizes only where they have to be the same."""
    operation = canonical_operation(signature.operation)
    if operation in _OPAQUE or operation == "barrier":
        return ""
    free = operation in _FREE_SIZES or operation in ("all_gather", "reduce_scatter")
    amount = () if free else _amount(signature)
    return f"{operation} {amount} {sorted(set(signature.input_dtypes))}"


def _sizes_fit(operation: str, signatures: Collection[Signature]) -> bool:
    if operation == "barrier":
        return True
    if operation in ("all_gather", "reduce_scatter"):
        # The list form allows another size per rank as long as all agree on the whole list.
        whole = {s.output_sizes if operation == "all_gather" else s.input_sizes for s in signatures}
        if len(whole) == 1 and len(next(iter(whole))) > 1:
            return True
    return len({_amount(s) for s in signatures}) == 1


def _amount(signature: Signature) -> tuple[int, int]:
    """Shapes may differ (``[4, 3]`` against ``[12]``): what the library moves is the number of elements."""
    return (signature.input_elements, signature.output_elements)


def is_barrier(operation: str, elements: int | None) -> bool:
    """A barrier, also in its disguise: NCCL's barrier is an all-reduce of one element."""
    name = canonical_operation(operation)
    return name == "barrier" or (name == "all_reduce" and elements == 1)


def minority(calls: Mapping[Any, Sequence[int]]) -> tuple[int, ...]:
    """The ranks outside the majority; empty on a tie, which is declared and not decided."""
    sizes = sorted((len(ranks) for ranks in calls.values()), reverse=True)
    if len(sizes) < 2 or sizes[0] == sizes[1]:
        return ()
    majority = max(calls.values(), key=len)
    return tuple(sorted(rank for ranks in calls.values() if ranks is not majority for rank in ranks))
