"""Who uses the processors: the ranks, other processes, all together, and who waits for them.

No command lines, no names of people.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unhang.watch.machine.counters import Counters, KernelPaths
from unhang.watch.process_state.proc_processes import read_environment, stat_fields, text_of

MUCH_CPUS = 0.25
"""So many processors in use are worth a line."""
SOME_CPUS = 0.1
"""So many of those that a rank is bound to, used by all who are bound there too: several processes share one."""
MAX_OTHERS = 16
MAX_BESIDE = 16
KERNEL_THREADS = 2
"""Their parent's pid."""
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*([\d,-]*\d)$", re.MULTILINE)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """One process. ``ticks``: of processor time so far; ``blocked``: its main thread stood in the kernel and could not
    be interrupted, as in a read or write of a disk."""

    pid: int
    parent: int
    ticks: int
    started: int
    blocked: bool


class ProcessorUse:
    """All processes, a few times a minute."""

    def __init__(self, places: KernelPaths, ours: Iterable[int]) -> None:
        """``ours``: the command's process and our own."""
        self._places = places
        self._ours = set(ours)
        self._counters = Counters()
        self.job: set[int] = set()
        """Pids of the job and of us at the last sample."""

    def sample(self, seconds: float, ranks: Mapping[int, int]) -> dict[str, Any]:
        """``ranks``: processors in use by each, the share of the time its main thread was ready and got none, and how
        many of its processes are blocked; ``others``: who else uses many; ``beside``: who else is bound to the
        processors that it is bound to, and uses some."""
        seen = {process.pid: process for process in self._all()}
        trees = {rank: _tree(seen, {pid}) for rank, pid in ranks.items()}
        ours = _tree(seen, self._ours | set(ranks.values()))
        self.job = ours
        used = {pid: self._used(process, seconds) for pid, process in seen.items()}
        self._counters.forget_others(
            [*(f"{p.pid} {p.started}" for p in seen.values()), *(f"waits {pid}" for pid in ranks.values())]
        )
        strangers = seen.keys() - self._ours - {one for tree in trees.values() for one in tree}
        rows = []
        for rank, pid in sorted(ranks.items()):
            row: dict[str, Any] = {"rank": rank, "pid": pid}
            if seconds > 0 and any(used.get(one) is not None for one in trees[rank]):
                row["cpus"] = round(sum(used.get(one) or 0.0 for one in trees[rank]), 2)
            blocked = sum(one in seen and seen[one].blocked for one in trees[rank])
            if blocked:
                row["blocked"] = blocked
            starved = self._starved(pid, seconds)
            row |= self._bound(pid, used, strangers)
            rows.append(row if starved is None else {**row, "starved": starved})
        others = self._others(seen, used, ours)
        found: dict[str, Any] = {"ranks": rows} if rows else {}
        if seconds > 0:
            found["job_cpus"] = round(sum(used.get(one) or 0.0 for one in ours), 2)
        return {**found, "others": others} if others else found

    def _all(self) -> list[ProcessTimes]:
        names: list[str] = []
        with suppress(OSError):
            names = os.listdir(self._places.proc)  # noqa: PTH208 - thousands of names, no paths wanted
        found = (self._one(int(name)) for name in names if name.isdecimal())
        return [process for process in found if process is not None]

    def _one(self, pid: int) -> ProcessTimes | None:
        fields = stat_fields(pid, proc=self._places.proc)
        if len(fields) < 20:
            return None
        parent, user, system, started = (int(fields[at]) for at in (1, 11, 12, 19))
        return ProcessTimes(pid, parent, user + system, started, fields[0] == "D")

    def _used(self, process: ProcessTimes, seconds: float) -> float | None:
        grown = self._counters.since(f"{process.pid} {process.started}", (process.ticks,))
        return grown[0] / _TICKS / seconds if grown is not None and seconds > 0 else None

    def _starved(self, pid: int, seconds: float) -> float | None:
        words = text_of(self._places.proc / str(pid) / "schedstat").split()
        if len(words) < 2 or not words[1].isdecimal():
            return None
        grown = self._counters.since(f"waits {pid}", (int(words[1]),))
        return round(min(1.0, grown[0] / 1e9 / seconds), 3) if grown is not None and seconds > 0 else None

    def _bound(self, pid: int, used: Mapping[int, float | None], strangers: Iterable[int]) -> dict[str, Any]:
        """Of a rank that may not use all processors: how many it may, and which ``strangers`` are bound to them too."""
        mine = self._allowed(pid)
        if not 0 < len(mine) < (os.cpu_count() or 1):
            return {}
        busy = [(cpus, one) for one in strangers if (cpus := used.get(one) or 0.0) > 0]
        here = [(cpus, one) for cpus, one in sorted(busy, reverse=True) if mine >= (self._allowed(one) or {-1})]
        if sum(cpus for cpus, _ in here) < SOME_CPUS:
            return {"processors": len(mine)}
        rows = [{"pid": one, **self.owner_entry(one), "cpus": round(cpus, 2)} for cpus, one in here[:MAX_BESIDE]]
        return {"processors": len(mine), "beside": rows}

    def _allowed(self, pid: int) -> set[int]:
        """Numbers of the processors that its main thread may use; none where that is not to be seen."""
        told = _ALLOWED.search(text_of(self._places.proc / str(pid) / "status"))
        ranges = [part.partition("-") for part in told.group(1).split(",")] if told is not None else []
        return {one for first, _, last in ranges for one in range(int(first), int(last or first) + 1)}

    def _others(
        self, seen: Mapping[int, ProcessTimes], used: Mapping[int, float | None], ours: set[int]
    ) -> list[dict[str, Any]]:
        busy = [
            (cpus, process)
            for pid, process in seen.items()
            if pid not in ours
            and (cpus := used.get(pid) or 0.0) >= MUCH_CPUS
            and KERNEL_THREADS not in (pid, process.parent)
        ]
        busy.sort(key=lambda one: -one[0])
        rows = []
        for cpus, process in busy[:MAX_OTHERS]:
            rows.append({"pid": process.pid, **self.owner_entry(process.pid), "cpus": round(cpus, 2)})
        return rows

    def owner_entry(self, pid: int) -> dict[str, Any]:
        """``user``: ``same`` or ``another`` with its number; the program's name only of our own user's."""
        with suppress(OSError):
            uid = os.stat(self._places.proc / str(pid)).st_uid  # noqa: PTH116
            if uid != os.getuid():
                return {"user": "another", "uid": uid}
            name = text_of(self._places.proc / str(pid) / "comm").strip()
            return {"user": "same", "name": name[:32]} if name.isprintable() else {"user": "same"}
        return {"user": "unknown"}


def _tree(seen: Mapping[int, ProcessTimes], roots: set[int]) -> set[int]:
    """``roots`` and everything below them."""
    inside = set(roots)
    children: dict[int, list[int]] = {}
    for process in seen.values():
        children.setdefault(process.parent, []).append(process.pid)
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in inside:
                inside.add(child)
                waiting.append(child)
    return inside


def belongs_to_job(pid: int, records: Path) -> bool:
    """A process that lost its parent still belongs to the job whose records its environment names."""
    return (read_environment(pid) or {}).get("UNHANG_RUN") == str(records)


_TOTAL = re.compile(r"^(some|full) .*\btotal=(\d+)", re.MULTILINE)
KINDS = ("io", "cpu", "memory")


class Pressure:
    """Shares of the time between two samples."""

    def __init__(self, places: KernelPaths) -> None:
        self._places = places
        self._counters = Counters()

    def sample(self, seconds: float) -> dict[str, Any]:
        """``pressure``: share of the time some (all) processes stood still for it; ``cpu``: processors in use."""
        found: dict[str, Any] = {}
        pressure = {kind: told for kind in KINDS if (told := self._of(kind, seconds))}
        if pressure:
            found["pressure"] = pressure
        used = self._processors()
        if used:
            found["cpu"] = used
        return found

    def _of(self, kind: str, seconds: float) -> dict[str, float]:
        totals = dict(_TOTAL.findall(text_of(self._places.proc / "pressure" / kind)))
        if "some" not in totals:
            return {}
        names = [name for name in ("some", "full") if name in totals]
        grown = self._counters.since(kind, [int(totals[name]) for name in names])
        if grown is None or seconds <= 0:
            return {}
        return {name: round(min(1.0, one / 1e6 / seconds), 4) for name, one in zip(names, grown, strict=True)}

    def _processors(self) -> dict[str, float]:
        line = text_of(self._places.proc / "stat").partition("\n")[0].split()
        if len(line) < 9 or line[0] != "cpu":
            return {}
        ticks = [int(word) for word in line[1:9]]  # user nice system idle iowait irq softirq steal
        grown = self._counters.since("stat", ticks)
        whole = sum(grown) if grown is not None else 0
        if grown is None or not whole:
            return {}
        processors = os.cpu_count() or 1
        of = {"busy": whole - grown[3] - grown[4] - grown[7], "waits_for_disks": grown[4], "stolen": grown[7]}
        return {"processors": processors, **{name: round(one * processors / whole, 2) for name, one in of.items()}}
