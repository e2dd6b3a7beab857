"""What torch's flight recorder says in this process: how far each group came, and the dump itself.

Costs, torch 2.13: the status without entries 3 to 10 µs hot, 45 to 250 µs in a thread that just woke up; a dump
without stacks about 14 ms at 2,000 entries, with stacks 60 ms; all of it holds the interpreter lock. For a first dump
with stacks torch loads its compiler, to look for lines of compiled code: about 2 s more.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from unhang.inprocess.import_hooks import DISTRIBUTED
from unhang.wire.record_views import GroupProgress

MODULE = "torch._C._distributed_c10d"
DUMP_FUNCTIONS = {"nccl": "_dump_nccl_trace", "other": "_dump_fr_trace"}
"""Two recorders in one process: NCCL's, and the one of every other backend. Ids are counted in each."""
_LEARN_BELOW = 40
"""Entries: reading so few takes well under a millisecond."""


def recorder_kind(backend: str) -> str:
    """Which recorder follows ``backend``."""
    return "nccl" if "nccl" in backend else "other"


class GroupNames:
    """Names of groups, in the order in which they were made: the recorder's ids are handed out in that order."""

    def __init__(self) -> None:
        self.made: dict[str, list[GroupProgress | None]] = {"nccl": [], "other": []}

    def add(self, name: str, size: int, config: str, *, wrapped: bool) -> None:
        """A group was made; ``config`` is like ``cpu:gloo,cuda:nccl``; ``wrapped``: each backend got a Gloo helper."""
        for backend in dict.fromkeys(part.rpartition(":")[2] for part in config.split(",")):
            if backend not in ("gloo", "nccl"):
                continue
            self.made[recorder_kind(backend)].append(
                GroupProgress(name, size, enqueued=0, completed=0, backend=backend)
            )
            if wrapped:
                self.made["other"].append(None)


class FlightRecorder:
    """Reads the recorder at every beat. ``counts`` is what it said last, newest group last."""

    def __init__(self, groups: GroupNames) -> None:
        self.groups = groups
        self.counts: dict[tuple[str, int], GroupProgress] = {}
        self.on = False
        self._calls: dict[str, Callable[..., bytes]] | None = None
        self._last: dict[str, bytes] = {}
        self._sure: dict[tuple[str, int], str] = {}
        self._learned_at = 0
        self._left = False

    def available(self) -> bool:
        """Torch is there and offers one (empty-handed for Gloo before 2.8)."""
        if self._calls is None:
            module = sys.modules.get(MODULE)
            if module is None:
                return False
            found = {kind: getattr(module, name, None) for kind, name in DUMP_FUNCTIONS.items()}
            self._calls = {kind: call for kind, call in found.items() if call is not None}
        return bool(self._calls)

    def read(self, now_ns: int, *, in_a_call: bool = False) -> None:
        """Bring ``counts`` up to date. Raises what torch raises.

        ``in_a_call``: the thread that issues collectives stands in one, or in backward, whose hooks issue them.
        """
        if self._left:
            return
        self.available()
        for kind, call in (self._calls or {}).items():
            said = call(includeCollectives=False, includeStackTraces=False, onlyActive=False)
            if said != self._last.get(kind):
                self._last[kind] = said
                self._take(kind, pickle.loads(said), now_ns)  # noqa: S301  made by this process a moment ago
        if self._calls is not None and "other" not in self._calls:
            self._count_gloo(now_ns, in_a_call=in_a_call)

    def _count_gloo(self, now_ns: int, *, in_a_call: bool) -> None:
        """Before torch 2.8 no recorder follows Gloo: its own counter tells what was enqueued, and nothing what
        finished. A call that came while the thread stood in one is open until it is seen elsewhere."""
        for number, (name, position) in enumerate(_gloo_positions(self.groups)):
            at = ("gloo", number)
            if at not in self.counts or self.counts[at].name != name:
                known = next(group for group in self.groups.made["other"] if group is not None and group.name == name)
                self.counts[at] = GroupProgress(name, known.size, backend="gloo", sure=True)
            told = {"last_enqueued_collective": position, "last_completed_collective": position - in_a_call}
            _move(self.counts[at], told, now_ns)

    def enqueued_now(self, name: str) -> tuple[GroupProgress, int] | None:
        """Gloo's group ``name`` and its last position this moment, from any thread: nothing is kept. None when several
        groups or none have that name. Raises what torch raises."""
        self.available()
        call = (self._calls or {}).get("other")
        if call is None:
            positions = dict(_gloo_positions(self.groups)) if self._calls is not None else {}
            made = [group for group in self.groups.made["other"] if group is not None and group.name == name]
            return (made[0], positions[name]) if name in positions and len(made) == 1 else None
        said = pickle.loads(call(includeCollectives=False, includeStackTraces=False, onlyActive=False))  # noqa: S301
        groups = [(self._known(("other", int(key))), status) for key, status in (said.get("pg_status") or {}).items()]
        found = [(group, int(status["last_enqueued_collective"])) for group, status in groups if group.name == name]
        return found[0] if len(found) == 1 and found[0][0].backend == "gloo" else None

    def _known(self, at: tuple[str, int]) -> GroupProgress:
        """What is known of a group, also before our thread has seen it."""
        made = self.groups.made[at[0]]
        known = self.counts.get(at) or (made[at[1]] if at[1] < len(made) else None)
        return known or GroupProgress(f"?{at[1]}")

    def leave(self) -> None:
        """This torch answers differently: ask no more."""
        self._calls, self._left = {}, True

    def _take(self, kind: str, said: dict[str, Any], now_ns: int) -> None:
        status = said.get("pg_status") or {}
        self.on = self.on or bool(status)
        for key, counts in status.items():
            at = (kind, int(key))
            group = self.counts.get(at)
            if group is None:
                group = self._new(at)
            if group is not None:
                _move(group, counts, now_ns)

    def _new(self, at: tuple[str, int]) -> GroupProgress | None:
        kind, number = at
        made = self.groups.made[kind]
        known = made[number] if number < len(made) else GroupProgress(f"?{number}")
        if known is None:  # the helper of a wrapped group
            return None
        name = self._sure.get(at)
        group = GroupProgress(name or known.name, known.size, backend=known.backend, sure=name is not None)
        self.counts[at] = group
        return group

    def learn(self) -> None:
        """Confirm the names from the recorder's own entries, while they are so few that it costs next to nothing."""
        doubtful = [at for at, group in self.counts.items() if not group.sure]
        total = sum(max(group.enqueued, 0) for group in self.counts.values())
        if not doubtful or not self._calls or not 0 < total <= _LEARN_BELOW or total == self._learned_at:
            return
        self._learned_at = total
        for kind in {kind for kind, _ in doubtful}:
            said = self._calls[kind](includeCollectives=True, includeStackTraces=False, onlyActive=False)
            for entry in pickle.loads(said).get("entries", ()):  # noqa: S301  as above
                name = entry["process_group"][0]
                if name:
                    self._sure[kind, entry["pg_id"]] = name
        for at in doubtful:
            if at in self._sure:
                self.counts[at].name, self.counts[at].sure = self._sure[at], True

    def living(self, names: list[str]) -> list[GroupProgress]:
        """The newest group of every name that still exists, also before anything was called in it; groups of unknown
        name too."""
        newest: dict[str, GroupProgress] = {}
        for at in sorted(self.counts):
            group = self.counts[at]
            key = f"{at[0]} {group.name}"
            if group.name in names or group.name.startswith("?"):
                newest[key] = group
        if not newest:
            return []  # switched off, or it has not begun: nothing tells what was called
        called = {group.name for group in newest.values()}
        made = (group for each in self.groups.made.values() for group in each if group is not None)
        unused = {group.name: group for group in made if group.name in names and group.name not in called}
        return [*newest.values(), *unused.values()]

    def dump(self, *, stacks: bool) -> bytes | None:
        """The whole recorder as torch writes it: NCCL's where NCCL has done anything. None without a recorder."""
        if not self.available() or not self._calls:
            return None
        if "other" not in self._calls and not self.groups.made["nccl"]:
            return None
        busy = "nccl" in self._calls and any(kind == "nccl" and count.enqueued > 0 for (kind, _), count in self._all())
        call = self._calls["nccl" if busy or "other" not in self._calls else "other"]
        return call(includeCollectives=True, includeStackTraces=stacks, onlyActive=False)

    def _all(self) -> list[tuple[tuple[str, int], GroupProgress]]:
        return list(self.counts.items())


def _gloo_positions(groups: GroupNames) -> list[tuple[str, int]]:
    """Group names and positions of the groups that Gloo alone carries."""
    world = getattr(sys.modules.get(DISTRIBUTED), "_world", None)
    ours = {group.name for group in groups.made["other"] if group is not None}
    ours -= {group.name for group in groups.made["nccl"] if group is not None}
    found = []
    for group, name in list(world.pg_names.items()) if world is not None else ():
        if name in ours:
            with suppress(RuntimeError, AttributeError):
                found.append((name, int(group._get_sequence_number_for_group())))  # noqa: SLF001
    return found


def _move(group: GroupProgress, said: dict[str, Any], now_ns: int) -> None:
    """Take over counts; Gloo's last completed may go back, the largest is kept."""
    enqueued = int(said.get("last_enqueued_collective", -1))
    started = int(said.get("last_started_collective", -1))
    completed = max(int(said.get("last_completed_collective", -1)), group.completed)
    if (enqueued, started, completed) != (group.enqueued, group.started, group.completed):
        group.enqueued, group.started, group.completed, group.changed_ns = enqueued, started, completed, now_ns
