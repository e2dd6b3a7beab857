"""The operations of a probe on torch: what is sent is known, so that every result can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

_WIDTH = 4  # float32


@dataclass(frozen=True, slots=True)
class PreparedOperation:
    """One operation, ready to run. ``start`` gives the works to wait for; ``right`` compares what arrived."""

    start: Callable[[], list[Any]]
    right: Callable[[], bool]
    clear: Callable[[], None] = lambda: None
    """Wipes what arrived, so that a result that stays away is not taken for the one before."""


def prepare_operation(
    name: str, group: Any, members: tuple[int, ...], me: int, size: int, device: Any
) -> PreparedOperation:
    """The operation ``name`` of ``size`` bytes for the one at place ``me`` of ``members`` (ranks of the world)."""
    makers = {
        "all-reduce": _all_reduce,
        "all-gather": _all_gather,
        "reduce-scatter": _reduce_scatter,
        "all-to-all": _all_to_all,
        "broadcast": _broadcast,
        "pair": _pair,
    }
    return makers[name](group, members, me, max(1, size // _WIDTH), device)


def _pattern(count: int, device: Any) -> Any:
    """Small whole numbers: sums of them are exact in float32, and neighbours differ."""
    return (torch.arange(count, device=device) % 7 + 1).to(torch.float32)


def _all_reduce(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    ranks = len(members)
    own = _pattern(count, device)
    data = torch.empty_like(own)
    wanted = own * (ranks * (ranks + 1) / 2)

    def start() -> list[Any]:
        data.copy_(own).mul_(me + 1)
        return [dist.all_reduce(data, group=group, async_op=True)]

    return PreparedOperation(start, lambda: torch.equal(data, wanted), lambda: _wipe(data))


def _all_gather(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    ranks = len(members)
    own = _pattern(max(1, count // ranks), device)
    data, out = own * (me + 1), torch.empty(own.numel() * ranks, device=device)
    wanted = torch.cat([own * (rank + 1) for rank in range(ranks)])
    return PreparedOperation(
        lambda: [dist.all_gather_into_tensor(out, data, group=group, async_op=True)],
        lambda: torch.equal(out, wanted),
        lambda: _wipe(out),
    )


def _reduce_scatter(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    ranks = len(members)
    part = max(1, count // ranks)
    own = _pattern(part * ranks, device)
    data, out = own * (me + 1), torch.empty(part, device=device)
    wanted = own[me * part : (me + 1) * part] * (ranks * (ranks + 1) / 2)
    return PreparedOperation(
        lambda: [dist.reduce_scatter_tensor(out, data, group=group, async_op=True)],
        lambda: torch.equal(out, wanted),
        lambda: _wipe(out),
    )


def _all_to_all(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    ranks = len(members)
    own = _pattern(max(1, count // ranks), device)
    data = torch.cat([own * (me * ranks + to + 1) for to in range(ranks)])
    out = torch.empty_like(data)
    wanted = torch.cat([own * (sender * ranks + me + 1) for sender in range(ranks)])
    return PreparedOperation(
        lambda: [dist.all_to_all_single(out, data, group=group, async_op=True)],
        lambda: torch.equal(out, wanted),
        lambda: _wipe(out),
    )


def _broadcast(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    wanted = _pattern(count, device)
    data = wanted.clone()
    return PreparedOperation(
        lambda: [dist.broadcast(data, members[0], group=group, async_op=True)],
        lambda: torch.equal(data, wanted),
        lambda: _wipe(data) if me else None,
    )


def _pair(group: Any, members: tuple[int, ...], me: int, count: int, device: Any) -> PreparedOperation:
    """Both ways at the same time."""
    other = members[1 - me]
    data, out = _pattern(count, device) * (me + 1), torch.empty(count, device=device)
    wanted = _pattern(count, device) * (2 - me)

    def start() -> list[Any]:
        send, receive = dist.P2POp(dist.isend, data, other, group), dist.P2POp(dist.irecv, out, other, group)
        # NCCL joins the two into one launch; in which order they are listed must not matter to the partner.
        works: list[Any] = dist.batch_isend_irecv([send, receive] if me == 0 else [receive, send])
        return works

    return PreparedOperation(start, lambda: torch.equal(out, wanted), lambda: _wipe(out))


def _wipe(data: Any) -> None:
    data.fill_(-1)
