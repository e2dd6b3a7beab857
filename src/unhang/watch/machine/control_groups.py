"""Limits on processors and memory of the ranks' control groups, and how often they were hit. cgroup v2 and v1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unhang.watch.machine.counters import Counters, KernelPaths, read_key_values, read_number
from unhang.watch.process_state.proc_processes import text_of

MAX_GROUPS = 256
"""Of different groups; a rank has a few above it."""


class ControlGroups:
    """Every control group above a rank that limits it."""

    def __init__(self, places: KernelPaths) -> None:
        self._places = places
        self._counters = Counters()

    def sample(self, ranks: Mapping[int, int]) -> dict[str, Any]:
        """``cgroup``: by name, limits and how often they held up its ``ranks`` since the sample before.

        Args:
            ranks: pid by rank.
        """
        members: dict[Path, list[int]] = {}
        for rank, pid in sorted(ranks.items()):
            for _, folder in groups_of(pid, self._places):
                if folder in members or len(members) < MAX_GROUPS:
                    members.setdefault(folder, []).append(rank)
        found = {}
        for folder, inside in members.items():
            told = {**self._processors(folder), **self._memory(folder)}
            if told:
                found[self._name(folder)] = {**told, "ranks": inside}
        self._counters.forget_others(f"{kind} {folder}" for folder in members for kind in ("cpu", "memory"))
        return {"cgroup": found} if found else {}

    def _name(self, folder: Path) -> str:
        return "/" + str(folder.relative_to(self._places.sys / "fs" / "cgroup"))[:300].removeprefix(".")

    def _processors(self, folder: Path) -> dict[str, Any]:
        limit = _limit(folder)
        told = read_key_values(folder / "cpu.stat")
        if limit is None or "nr_periods" not in told:
            return {}
        lost = told.get("throttled_usec", told.get("throttled_time", 0) // 1000)
        grown = self._counters.since(f"cpu {folder}", (told["nr_periods"], told.get("nr_throttled", 0), lost))
        found: dict[str, Any] = {"limit_cpus": limit}
        if grown is not None:
            found |= {"periods": grown[0], "throttled": grown[1], "throttled_s": round(grown[2] / 1e6, 3)}
        return found

    def _memory(self, folder: Path) -> dict[str, Any]:
        limit = memory_limit(folder)
        used = _first_number(folder, "memory.current", "memory.usage_in_bytes")
        if limit is None or used is None:
            return {}
        events = read_key_values(folder / "memory.events")
        hits = events.get("high", 0) + events.get("max", 0) + (read_number(folder / "memory.failcnt") or 0)
        grown = self._counters.since(f"memory {folder}", (hits,))
        found: dict[str, Any] = {"memory_limit": limit, "memory_used": used}
        return {**found, "memory_hits": grown[0]} if grown is not None else found


def groups_of(pid: int, places: KernelPaths) -> Iterator[tuple[str, Path]]:
    """The groups that limit processors or memory of ``pid``, with those above them: (what the process calls the one it
    is in, folder), the nearest first."""
    root = places.sys / "fs" / "cgroup"
    for line in text_of(places.proc / str(pid) / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        tops = [root / "unified", root] if not controllers else [root / controllers]
        tops += [root / one for one in controllers.split(",") if one != controllers]
        if controllers and not {"cpu", "memory"} & set(controllers.split(",")):
            continue
        top = next((top for top in tops if top.is_dir()), None)
        if top is None:
            continue
        folder = top / path.lstrip("/")
        yield from ((path, one) for one in (folder, *folder.parents) if one == top or one.is_relative_to(top))


def memory_limit(folder: Path) -> int | None:
    """In bytes; None where there is none."""
    limit = _first_number(folder, "memory.max", "memory.limit_in_bytes")
    return limit if limit is not None and limit < 1 << 60 else None


def _first_number(folder: Path, *names: str) -> int | None:
    numbers = (read_number(folder / name) for name in names)
    return next((number for number in numbers if number is not None), None)


def _limit(folder: Path) -> float | None:
    """In processors; None where there is none."""
    words = text_of(folder / "cpu.max").split()
    if len(words) == 2 and all(word.isdecimal() for word in words):
        return round(int(words[0]) / max(1, int(words[1])), 3)
    quota, period = read_number(folder / "cpu.cfs_quota_us"), read_number(folder / "cpu.cfs_period_us")
    return round(quota / period, 3) if quota is not None and quota > 0 and period else None
