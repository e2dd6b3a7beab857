"""A rank arms when it enters init_process_group: our thread starts then, never before, and never in a child of it."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import Any

from unhang.inprocess.capture import nccl_startup_log
from unhang.inprocess.import_hooks import DISTRIBUTED
from unhang.inprocess.internal_errors import environment_number, log_internal_error, reset_log, restart_attempt
from unhang.inprocess.session import Session
from unhang.inprocess.steps import count_optimizer_steps

_session: Session | None = None
_disabled = False
_registered = False
_POSITIONS = {"backend": 0, "world_size": 3, "rank": 4}
_ANCESTORS = 8
_BUFFER = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE")


def on_init_enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The program enters init_process_group with these arguments. Never raises."""
    try:
        session = _session or _arm(args, kwargs)
        if session is not None:
            session.init_depth += 1
    except Exception as error:  # noqa: BLE001  the edge to the user's program
        log_internal_error("could not arm", error)


def on_init_leave() -> None:
    """The program left init_process_group. Never raises."""
    if _session is not None and _session.init_depth:
        _session.init_depth -= 1


def before_new_group() -> None:
    """A group is about to be made; arms a rank whose init_process_group escaped us. Never raises."""
    if _session is None and not _disabled:
        on_init_enter((), {})
        on_init_leave()


def after_new_group(made: Any) -> None:
    """``made`` is what torch's helper returned: a group and its store, or not a member. Never raises."""
    try:
        group = made[0]
        if _session is None or not hasattr(group, "size"):
            return
        _session.group_was_up = True
        module = sys.modules[DISTRIBUTED]
        world = getattr(module, "_world", None)
        config = world.pg_backend_config.get(group, "") if world is not None else ""
        wrapped = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"
        name = world.pg_names.get(group, "") if world is not None else ""
        _session.groups.add(name, group.size(), config, wrapped=wrapped)
    except Exception as error:  # noqa: BLE001  the edge to the user's program
        log_internal_error("could not follow a new group", error)


def _arm(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Session | None:
    global _session, _registered  # noqa: PLW0603
    if _disabled or not os.environ.get("UNHANG_RUN") or _has_armed_ancestor():
        return None
    if not _registered:
        _registered = True
        os.register_at_fork(after_in_child=_leave_child)
        atexit.register(_exiting)
        count_optimizer_steps()
    _enable_flight_recorder()
    rank, world_size = _given("rank", args, kwargs), _given("world_size", args, kwargs)
    backend = kwargs.get("backend", args[0] if args else "") or ""
    rank = rank if rank is not None else environment_number("RANK")
    nccl_startup_log.enable_startup_log(rank, str(backend))
    session = Session(rank, world_size if world_size is not None else environment_number("WORLD_SIZE"), str(backend))
    session.start()
    _session = session
    return session


def _enable_flight_recorder() -> None:
    """Torch reads these variables when the first group is made, so here is early enough and the version is known.

    From 2.11 on the recorder is on by itself; from 2.8 on the old name works but is complained about. Whoever set
    either name has decided.
    """
    if any(name in os.environ for name in _BUFFER):
        return
    version = str(getattr(sys.modules.get("torch"), "__version__", ""))
    with suppress(ValueError):
        major_minor = tuple(int(part) for part in version.split(".")[:2])
        if major_minor < (2, 11):
            os.environ[_BUFFER[major_minor >= (2, 8)]] = "2000"


def _given(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    at = _POSITIONS[name]
    value = kwargs.get(name, args[at] if len(args) > at else None)
    return value if isinstance(value, int) and value >= 0 else None


def _has_armed_ancestor() -> bool:
    """A process this one descends from is a rank: loader workers, savers and servers of a rank are no ranks."""
    folder, pid = os.environ["UNHANG_RUN"], os.getppid()
    for _ in range(_ANCESTORS):
        if pid <= 1:
            return False
        if os.path.exists(f"{folder}/{restart_attempt()}.{pid}.rec"):  # noqa: PTH110
            return True
        pid = _parent_of(pid)
    return False


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read(4096).rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _leave_child() -> None:
    """A forked child of a rank: no thread came along; forget everything and never arm."""
    global _session, _disabled
    if _session is None:
        return
    session, _session, _disabled = _session, None, True
    reset_log()
    session.leave_child()


def _exiting() -> None:
    """The interpreter shuts down in order; our thread goes on until the very end (``end``)."""
    if _session is not None:
        _session.exiting = True


def end() -> None:
    """Called last of all that the program and we registered: no thread of ours runs while Python is torn down."""
    if _session is not None and _session.pid == os.getpid():
        _session.stop()
