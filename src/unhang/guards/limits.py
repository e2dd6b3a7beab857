"""``limits(init=…, train=…)``: how long a collective may take at the start and in training; what is really in force.

torch gives each group a limit of its own when it is made: groups made later do not take over that of
``init_process_group``, and some backends ignore a new one. So what was set is read back, group by group.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from unhang.guards.arguments import checked_seconds
from unhang.guards.exchange.printing import print_message
from unhang.guards.exchange.store_connection import GROUP_PREFIX

STEPS_OF_INIT = 2
"""So many optimizer steps are of the start: compilation, first batches and first communicators are slow."""
NOTICED_AFTER_S = 86400.0
GLOO_TAKES_NEW_LIMITS = (2, 13)
"""Before, Gloo keeps the limit a group was made with, whatever its options say (run with 2.4, 2.8 and 2.13;
pytorch issue 165422, November 2025). Where that is so we leave its options alone: they then tell what holds."""


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """The limit of one group on one backend. ``limit_s``: in force for the next collective; None: it does not tell."""

    group: str
    backend: str
    ranks: tuple[int, ...]
    limit_s: float | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What is in force in this process. ``notes``: what was asked for and is not so, and what makes a limit void."""

    groups: tuple[GroupLimit, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{limit.group} ({limit.backend}, {len(limit.ranks)} ranks): "
            + ("unknown" if limit.limit_s is None else f"{limit.limit_s:g} s")
            for limit in self.groups
        ]
        return "\n".join([*(lines or ["no process group"]), *self.notes])


def limits(init: float | timedelta | None = None, train: float | timedelta | None = None) -> Limits:
    """Set the limits of all groups of this process, and give those that are really in force.

    Call it on every rank after ``init_process_group`` (and after the groups of a device mesh). With both, ``init``
    holds from now and ``train`` after the second optimizer step; one alone holds from now; with none it only looks.
    A limit holds for collectives that begin later. What could not be set is said on standard error, once a rank.
    Without torch.distributed there are no groups and nothing happens.

    Args:
        init: seconds or a timedelta for the start: loading, compilation, first communicators.
        train: seconds or a timedelta for training: longer than your slowest save or evaluation on one rank.

    Raises:
        UsageError: a limit that is no positive length of time.
    """
    first, then = (_seconds(name, value) for name, value in (("init", init), ("train", train)))
    if first is not None and then is not None:
        _when_trained(STEPS_OF_INIT, lambda: _set_and_tell(then))
    wanted = first if first is not None else then
    return _in_force() if wanted is None else _set_and_tell(wanted)


def _set_and_tell(wanted_s: float) -> Limits:
    for _, backend in _backends():
        if _can_be_set(backend):
            backend._set_default_timeout(timedelta(seconds=wanted_s))  # noqa: SLF001 - torch 2.4 to 2.13 have no other way
    found = _in_force(wanted_s)
    for note in found.notes:
        print_message(f"limits: {note}")
    return found


def _in_force(wanted_s: float | None = None) -> Limits:
    found = [_limit_of(group, backend) for group, backend in _backends()]
    return Limits(tuple(found), tuple(_notes(found, wanted_s)))


def _notes(found: list[GroupLimit], wanted_s: float | None) -> Iterator[str]:
    for limit in found:
        if wanted_s is None:
            break
        if limit.limit_s is None:
            yield f"{limit.group}: its backend {limit.backend} does not report its limit; {wanted_s:g} s may not apply"
        elif abs(limit.limit_s - wanted_s) > 0.001:
            yield (
                f"{limit.group}: {limit.limit_s:g} s apply, not {wanted_s:g} s: {limit.backend} keeps the limit a "
                f"group is created with; set timeout=timedelta(seconds={wanted_s:g}) to init_process_group or new_group"
            )
    if any("nccl" in limit.backend for limit in found) and (off := _without_watchdog()):
        yield f"{off} is set: no timeout of an NCCL group has any effect; unset it"
    longest = max((limit.limit_s for limit in found if limit.limit_s is not None), default=0.0)
    if longest > NOTICED_AFTER_S:
        yield f"a limit of {longest:g} s is more than a day: a stall would waste all of it before anything notices"


def _without_watchdog() -> str:
    for name in ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"):
        if os.environ.get(name) == "0" and os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0") == "0":
            return f"{name}=0"
    return ""


def _backends() -> Iterator[tuple[Any, Any]]:
    """(group, backend) of every group this rank is in; each backend of a group once."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return
    world = dist.distributed_c10d._world  # noqa: SLF001 - the only list of groups there is
    for group in list(world.pg_map):
        if getattr(group, "group_desc", "").startswith(GROUP_PREFIX):
            continue  # guards wait for slow storage and slow ranks there, as long as they were told to
        seen: list[Any] = []
        for device in getattr(group, "_device_types", ()):
            backend = group._get_backend(device)  # noqa: SLF001
            backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL
            if not any(backend is known for known in seen):
                seen.append(backend)
                yield group, backend


def _limit_of(group: Any, backend: Any) -> GroupLimit:
    world = sys.modules["torch.distributed"].distributed_c10d._world  # noqa: SLF001
    name = world.pg_names.get(group, "")
    described = getattr(group, "group_desc", "")
    label = described if described not in ("", "undefined") else f"group {name}"
    ranks = tuple(sorted(world.pg_group_ranks.get(group, {})))
    return GroupLimit(label, backend.name(), ranks, _backend_limit_s(backend))


def _backend_limit_s(backend: Any) -> float | None:
    limit = getattr(getattr(backend, "options", None), "_timeout", None)
    return limit.total_seconds() if isinstance(limit, timedelta) else None


def _can_be_set(backend: Any) -> bool:
    if not hasattr(backend, "_set_default_timeout"):
        return False
    if backend.name() != "gloo":
        return True
    version = sys.modules["torch"].__version__.split("+")[0].split(".")
    return tuple(int(part) for part in version[:2] if part.isdigit()) >= GLOO_TAKES_NEW_LIMITS


def _when_trained(steps: int, then: Any) -> None:
    """Call ``then`` once, after so many optimizer steps of this process."""
    if "torch.distributed" not in sys.modules:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    lock = threading.Lock()
    left = [steps]

    def after_step(*_: object) -> None:
        with lock:
            left[0] -= 1
            if left[0] != 0:
                return
        hook.remove()
        then()

    hook = register_optimizer_step_post_hook(after_step)


def _seconds(name: str, limit: float | timedelta | None) -> float | None:
    if limit is None:
        return None
    return checked_seconds(
        "limits", name, limit.total_seconds() if isinstance(limit, timedelta) else limit, longest_s=1e10
    )
