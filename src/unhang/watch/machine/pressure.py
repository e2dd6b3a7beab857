"""Who waits for processors, disks and memory on this machine: ``/proc/pressure`` and ``/proc/stat``."""

from __future__ import annotations

import os
import re
from typing import Any

from unhang.watch.machine.counters import Counters, KernelPaths, read_small_file

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
        totals = dict(_TOTAL.findall(read_small_file(self._places.proc / "pressure" / kind)))
        if "some" not in totals:
            return {}
        names = [name for name in ("some", "full") if name in totals]
        grown = self._counters.since(kind, [int(totals[name]) for name in names])
        if grown is None or seconds <= 0:
            return {}
        return {name: round(min(1.0, one / 1e6 / seconds), 4) for name, one in zip(names, grown, strict=True)}

    def _processors(self) -> dict[str, float]:
        line = read_small_file(self._places.proc / "stat").partition("\n")[0].split()
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
