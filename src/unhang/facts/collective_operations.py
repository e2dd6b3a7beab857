"""What may differ between ranks in one collective, and what may not (``knowledge/operations.toml``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from unhang.evidence.items import Signature
from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class Operation:
    """One row: what a collective asks of the ranks that call it."""

    name: str
    aliases: tuple[str, ...] = ()
    sizes: Literal["equal", "listed", "free"] = "equal"
    whole: bool = False
    """Nobody leaves it before everybody has come."""
    root: int | None = None
    """Which argument is the root where it is not named."""
    opaque: bool = False
    """The name hides what is inside."""


# What the name of a function adds to that of the collective it makes.
_FORMS = {"", "_into_tensor", "_tensor", "_single", "_object", "_object_list", "_coalesced"}
POINT_TO_POINT = {"send", "recv", "isend", "irecv", "batch_isend_irecv"}


@cache
def _operations() -> Mapping[str, Operation]:
    """By all of their names."""
    rows = read_rows("operations.toml", "operation", Operation)
    return {name: row for row in rows for name in (row.name, *row.aliases)}


def operation_row(operation: str) -> Operation:
    """What is known of an operation, however it is called."""
    lowered = operation.lower()
    return _operations().get(lowered) or Operation(lowered, opaque=not lowered)


def canonical_operation(operation: str) -> str:
    """One name per operation over backends and versions: ``_allgather_base`` is ``all_gather_into_tensor``."""
    return operation_row(operation).name


def may_be_recorded_as(called: str, recorded: str) -> bool:
    """Whether a call of the function ``called`` may stand in a record as ``recorded``: Gloo knows one all-gather, which
    ``all_gather_into_tensor`` and ``all_gather_object`` come to as well."""
    whole, part = canonical_operation(called), canonical_operation(recorded)
    return whole.startswith(part) and whole[len(part) :] in _FORMS


def signature_differences(signatures: Collection[Signature]) -> tuple[str, ...]:
    """In what ranks disagree that called these at one position: among ``operation``, ``size``, ``dtype``.

    Empty when the calls fit together, also where they look different but may (uneven all-to-all, scatter's root).
    """
    operations = {operation_row(s.operation) for s in signatures}
    if any(operation.opaque for operation in operations):
        return ()
    if len(operations) > 1:
        return ("operation",)
    (operation,) = operations
    found = []
    if not _sizes_fit(operation, signatures):
        found.append("size")
    dtypes = {s.input_dtypes for s in signatures if s.input_dtypes}
    if operation.name != "barrier" and len({frozenset(d) for d in dtypes}) > 1:
        found.append("dtype")
    return tuple(found)


def signature_text(signature: Signature) -> str:
    """The part of a signature that all ranks must share, as text; sizes only where they have to be the same."""
    operation = operation_row(signature.operation)
    if operation.opaque or operation.name == "barrier":
        return ""
    amount = _amount(signature) if operation.sizes == "equal" else ()
    return f"{operation.name} {amount} {sorted(set(signature.input_dtypes))}"


def _sizes_fit(operation: Operation, signatures: Collection[Signature]) -> bool:
    if operation.name == "barrier" or operation.sizes == "free":
        return True
    if operation.sizes == "listed":
        whole = {s.output_sizes if operation.name == "all_gather" else s.input_sizes for s in signatures}
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


def ranks_by_sizes(operation: str, brought: object, got: object) -> int | None:
    """How many ranks take part: what an all-gather gives is what each brings times them, and the other way round."""
    if not isinstance(brought, int) or not isinstance(got, int) or min(brought, got) <= 0 or brought == got:
        return None
    told = ("gather" in operation and got > brought) or ("scatter" in operation and brought > got)
    whole, part = max(brought, got), min(brought, got)
    return whole // part if told and whole % part == 0 else None


def minority(calls: Mapping[Any, Sequence[int]]) -> tuple[int, ...]:
    """The ranks outside the majority; empty on a tie, which is declared and not decided."""
    sizes = sorted((len(ranks) for ranks in calls.values()), reverse=True)
    if len(sizes) < 2 or sizes[0] == sizes[1]:
        return ()
    majority = max(calls.values(), key=len)
    return tuple(sorted(rank for ranks in calls.values() if ranks is not majority for rank in ranks))
