"""Take the evidence of one moment into the run folder: dumps, stacks twice, process states, logs, crash reports.

Runs in a short-lived child of the watcher, so that nothing in here can hold the watcher up.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unhang.errors import UnhangError
from unhang.records.record import read_record, record_path
from unhang.records.views import RecordView
from unhang.watch import earlier_evidence, last_words, looks, private_files, processes
from unhang.watch.attach.ladder import KernelLook, Look, kernel_look, set_going
from unhang.watch.attach.moving import moved
from unhang.watch.control_file import open_control
from unhang.watch.kept_logs import keep_logs
from unhang.watch.members import Member, children_of

SCHEMA = "unhang.bundle/1"
POLL_S = 0.05
DUMP_LIMIT_S = 2.0
STACKS_LIMIT_S = 6.0
"""torch imports half of itself for the first dump with stacks of a process: 0.8 s, much longer on a busy machine."""
BETWEEN_LOOKS_S = 0.4
LOOK_LIMIT_S = 2.0
SILENT_S = 1.5
"""A record so old says nothing of now, and its rank answers no request."""
WORKERS = 8
"""At most so many children of a rank are looked at."""


Process = tuple[int, int]
"""(rank, pid): a rank's own process or one of its children."""


@dataclass(slots=True)
class Order:
    """What to take. ``number``: of this run, from 1. ``with_stacks``: dumps name the lines of their collectives.
    ``live``: the ranks can be looked at; otherwise the job has ended. ``looks``: how many, at least two."""

    number: int
    records: Path
    members: Mapping[int, Member]
    world_size: int | None
    job_outputs: Mapping[str, str]
    stalled_since_s: float | None
    with_stacks: bool = False
    live: bool = True
    looks: int = 2
    earlier_dumps: bool = False
    pace: bytes = b""
    """``machine/pace.json``, for a job that moves."""
    compared: bytes = b""
    """``machine/compared.json``, where its ranks called different things."""
    memory: bytes = b""
    """``machine/memory.log``, where a lack of memory may have ended a rank."""
    kernel: bytes = b""
    """``machine/kernel.log``."""
    lang: str = "en"
    """Of the text for people."""
    noticed_after_s: float | None = None
    """Of a stall that was spoken of before: so long after its beginning it was."""


@dataclass(slots=True)
class Taken:
    """What came of it: per rank, whether it answered, its ``/proc`` state, and whether it moved between the looks."""

    answered: set[int] = field(default_factory=set)
    states: dict[int, str] = field(default_factory=dict)
    moving: dict[int, bool] = field(default_factory=dict)
    not_seen: dict[int, str] = field(default_factory=dict)
    """Why nobody could look at a rank's stack from outside."""
    kernel: dict[int, tuple[KernelLook, ...]] = field(default_factory=dict)
    """All that the kernel tells of those ranks, at two moments."""
    from_record: set[int] = field(default_factory=set)
    """Ranks whose stack is the one their own record names."""
    taken_s: float = 0.0


class Interrupted(UnhangError):
    """A rank ended while it was looked at: what an earlier look found is worth more."""


def take(order: Order, folder: Path) -> Taken:
    """Take the evidence of ``order`` into ``folder`` and write its manifest.

    Raises:
        Interrupted: the job ended meanwhile; the evidence of an earlier look, if any, is back in its place.
    """
    taken = Taken()
    if order.live:
        _look_aside(order, folder, taken)
    else:
        shutil.rmtree(folder / "source", ignore_errors=True)
        last_words.drop_earlier_dumps(order.members, folder)
        last_words.keep_last_stands(order.members, folder)
    keep_logs(order.job_outputs, order.members, folder)
    last_words.keep_exceptions(order.members, folder)
    _keep_what_was_watched(order, folder)
    taken.taken_s = time.time()
    write_manifest(folder, manifest_of(order, taken))
    return taken


def _look_aside(order: Order, folder: Path, taken: Taken) -> None:
    """Look while the evidence of the look before lies aside, and give it up only for a whole new one."""
    stacks = folder / ".unhang" / "stacks"
    earlier_evidence.lay_dumps_aside(folder)
    ended = (rank for rank, member in order.members.items() if member.ended_ns is not None)
    earlier_evidence.keep_dumps(folder, ended)
    shutil.rmtree(stacks, ignore_errors=True)
    private_files.make_folder(stacks)
    _look(order, folder, stacks, taken)
    gone = [rank for rank in taken.states if not _lives(order.members[rank].pid)]
    if gone and (folder / "verdict.json").exists():
        earlier_evidence.restore(folder)
        raise Interrupted(f"rank {gone[0]} ended during the look")
    earlier_evidence.lay_rest_aside(folder)
    stacks.rename(folder / "stacks")


def _lives(pid: int) -> bool:
    look = processes.look_at(pid)
    return look is not None and look.state not in "ZX"


def _look(order: Order, folder: Path, stacks: Path, taken: Taken) -> None:
    living = {rank: member for rank, member in order.members.items() if member.ended_ns is None}
    for rank, member in living.items():
        taken.states[rank] = member.state
    before = _records(order, living)
    kernel = {rank: kernel_look(member.pid) for rank, member in living.items()}
    asked = _Request(order, living, taken)
    earlier = _stacks(living, taken)
    for number in range(1, order.looks):
        _write_stacks(stacks, earlier, living, look=number)
        asked.wait(STACKS_LIMIT_S if order.with_stacks else DUMP_LIMIT_S)
        if order.earlier_dumps and number == 1:
            _set_dumps_aside(folder)
            asked = _Request(order, living, taken)
        time.sleep(BETWEEN_LOOKS_S)
        latest = _stacks(living, taken, native=frozenset(living) - taken.answered if number == order.looks - 1 else ())
        _compare_stacks(taken, living, earlier, latest)
        earlier = latest
    _write_stacks(stacks, earlier, living, look=None)
    if order.earlier_dumps:
        asked.wait(DUMP_LIMIT_S)
    after = _records(order, living)
    seen = {rank for rank, pid in earlier if pid == living[rank].pid}
    _compare_records(taken, seen, before, after)
    taken.not_seen = {rank: reason for rank, reason in taken.not_seen.items() if rank not in seen}
    for rank in taken.not_seen:
        _compare_kernel(taken, living[rank], kernel[rank])
    taken.from_record = _write_recorded_stacks(stacks, living, seen, after)


def _compare_stacks(
    taken: Taken, living: Mapping[int, Member], earlier: Mapping[Process, str], latest: Mapping[Process, str]
) -> None:
    for rank, member in living.items():
        own = (rank, member.pid)
        if own in earlier and own in latest and not looks.same_place(earlier[own], latest[own]):
            taken.moving[rank] = True
        elif own in earlier and own in latest:
            taken.moving.setdefault(rank, False)


def _compare_records(
    taken: Taken, seen: set[int], before: Mapping[int, RecordView], after: Mapping[int, RecordView]
) -> None:
    for rank in before.keys() & after.keys():
        if _counts(before[rank]) != _counts(after[rank]):
            taken.moving[rank] = True
        elif rank not in seen and not _silent(after[rank]):
            taken.moving[rank] = before[rank].stack_hash != after[rank].stack_hash


def _compare_kernel(taken: Taken, member: Member, before: KernelLook) -> None:
    """Nobody may look at its stack: its state, what it waits in and the processor time it uses tell a little."""
    after = kernel_look(member.pid)
    taken.kernel[member.rank] = (before, after)
    answer = moved([Look(member.pid, 0.0, before), Look(member.pid, 1.0, after)], waits_asleep=True)
    if answer is not None:
        taken.moving.setdefault(member.rank, answer)


def _records(order: Order, living: Mapping[int, Member]) -> dict[int, RecordView]:
    found = {}
    for rank, member in living.items():
        view = read_record(record_path(order.records, member.view.identity.attempt, member.pid))
        if view is not None:
            found[rank] = view
    return found


def _counts(view: RecordView) -> list[tuple[str, int]]:
    """Enqueued collectives; Gloo's completed counts may change while nothing moves."""
    return [(group.name, group.enqueued) for group in view.groups]


class _Request:
    """Asks all ranks for their dumps, and waits for those that can answer."""

    def __init__(self, order: Order, living: Mapping[int, Member], taken: Taken) -> None:
        self._order, self._taken = order, taken
        self._expected = {
            rank: member
            for rank, member in living.items()
            if member.state != "T" and not member.view.closed and member.view.identity.armed_ns > 0
        }
        control = open_control(order.records)
        self._number = 0
        if control is not None:
            self._number = control.ask_stacks() if order.with_stacks else control.ask_dump()
            control.close()

    def wait(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while self._number and time.monotonic() < deadline:
            views = _records(self._order, self._expected)
            served = {rank for rank, view in views.items() if self._served(view) >= self._number}
            self._taken.answered = served
            silent = {rank for rank, view in views.items() if _silent(view)}
            if served | silent >= set(self._expected):
                return
            time.sleep(POLL_S)

    def _served(self, view: RecordView) -> int:
        return view.stacks_served if self._order.with_stacks else view.dump_served


def _set_dumps_aside(folder: Path) -> None:
    for path in sorted((folder / "dumps").glob("rank_*")):
        private_files.make_folder(folder / "dumps" / "earlier")
        with suppress(OSError):
            path.replace(folder / "dumps" / "earlier" / path.name)


def _stacks(living: Mapping[int, Member], taken: Taken, native: frozenset[int] | tuple[()] = ()) -> dict[Process, str]:
    """One look at every rank and its children (loader workers), the ones of silent ranks with C frames."""
    targets: list[Process] = []
    for rank, member in sorted(living.items()):
        targets.append((rank, member.pid))
        targets += [(rank, child) for child in children_of(member.pid)[:WORKERS]]

    def look(target: Process) -> str | None:
        rank, pid = target
        own = pid == living[rank].pid
        stopped = taken.states.get(rank) == "T"
        if own and rank in native and not stopped:
            text = looks.stacks_of(pid, native=True, limit_s=LOOK_LIMIT_S)
            set_going(pid, taken.states[rank])  # should py-spy have run out of time while it held the process
            if text is not None:
                return text
        looked = looks.look_at(pid, stopped=True, limit_s=LOOK_LIMIT_S)
        if own and looked.text is None:
            taken.not_seen[rank] = looked.refused
        return looked.text

    with ThreadPoolExecutor(max_workers=2) as pool:
        texts = list(pool.map(look, targets))
    return {target: text for target, text in zip(targets, texts, strict=True) if text is not None}


def _write_stacks(
    stacks: Path, found: Mapping[Process, str], living: Mapping[int, Member], *, look: int | None
) -> None:
    """``look`` None is the last one; only of that one the children are kept."""
    for (rank, pid), text in found.items():
        own = pid == living[rank].pid
        if not own and look is not None:
            continue
        name = f"rank_{rank}" + (f".{look}" if look is not None else "" if own else f".worker_{pid}")
        private_files.write(stacks / f"{name}.txt", text.encode())


def _write_recorded_stacks(
    stacks: Path, living: Mapping[int, Member], seen: set[int], views: Mapping[int, RecordView]
) -> set[int]:
    """Where nobody may look from outside, the rank's own record says where its training thread stands.

    Not that of a silent rank: what it said last may be long past. Returns the ranks whose record told.
    """
    told = set()
    for rank, view in views.items():
        if rank in seen or not view.stack or _silent(view):
            continue
        told.add(rank)
        text = last_words.recorded_stack(view, living[rank].pid)
        private_files.write(stacks / f"rank_{rank}.txt", text.encode())
    return told


def _silent(view: RecordView) -> bool:
    return view.age_s() > SILENT_S


def _keep_what_was_watched(order: Order, folder: Path) -> None:
    watched = {"pace.json": order.pace, "compared.json": order.compared}
    for name, content in (watched | {"memory.log": order.memory, "kernel.log": order.kernel}).items():
        if content:
            private_files.write(folder / "machine" / name, content)


def manifest_of(order: Order, taken: Taken) -> dict[str, Any]:
    """``bundle.json`` as a dict; ``docs/bundle.md`` tells the keys."""
    backends = [member.view.backend for member in order.members.values() if member.view.backend]
    versions = [member.view.identity.torch for member in order.members.values() if member.view.identity.torch]
    return {
        "schema": SCHEMA,
        "world_size": order.world_size,
        "backend": backends[0] if backends else "",
        "torch_version": versions[0] if versions else _torch_version(),
        "stalled_since_s": order.stalled_since_s,
        "taken_s": taken.taken_s,
        "limit_s": None,
        "live": order.live,
        "source_root": "source",
        "source_prefix": "/",
        "processes": [_process(order, taken, member) for _, member in sorted(order.members.items())],
    }


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write ``bundle.json`` anew."""
    private_files.replace(folder / "bundle.json", json.dumps(manifest, indent=1).encode() + b"\n")


def _process(order: Order, taken: Taken, member: Member) -> dict[str, Any]:
    me = member.view.identity
    gone = member.ended_ns is not None
    return {
        "rank": member.rank,
        "local_rank": me.local_rank if me.local_rank >= 0 else None,
        "pid": member.pid,
        "host": member.birth.host if member.birth is not None else os.uname().nodename,
        "exit_code": member.exit_code if gone else None,
        "terminated_by_launcher": gone and _is_victim(order, member),
        "killed_by_us": False,
        "state": "" if gone else taken.states.get(member.rank, member.state),
        "ended_s": member.ended_s,
        "moving": taken.moving.get(member.rank),
        **({"not_seen": reason} if (reason := taken.not_seen.get(member.rank)) else {}),
        **({"kernel": [one.as_json() for one in both]} if (both := taken.kernel.get(member.rank)) else {}),
        **({"from_record": True} if member.rank in taken.from_record else {}),
    }


def _is_victim(order: Order, member: Member) -> bool:
    """Ended by SIGTERM after a sibling had failed: that is what launchers do."""
    assert member.ended_ns is not None
    failed = [
        other.ended_ns
        for other in order.members.values()
        if other.ended_ns is not None and other.exit_code not in (0, -15, None)
    ]
    return member.exit_code == -15 and bool(failed) and min(failed) <= member.ended_ns


def _torch_version() -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("torch")
    return ""
