"""Every check, in the order in which people read the answers, and how all of them are asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from unhang.check.devices import collect_devices, collect_driver, collect_topology
from unhang.check.environment import collect_environment, collect_limits, collect_timers, collect_versions
from unhang.check.network import collect_network
from unhang.check.probe_results import collect_probe
from unhang.check.sameness import collect_sameness
from unhang.check.storage import collect_storage
from unhang.findings import NotChecked
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.installed_packages import InstalledPackages
from unhang.program.imports.launch_entry import interpreter_of
from unhang.program.launch.follow_command import follow_command
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.settings import configuration_files
from unhang.sentences import say

FOLLOW_LIMIT_S = 5.0
"""So long the scripts between the command and its program may take."""
INTERRUPT_POLL_S = 0.2
"""Ctrl-C, while a check is at work."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """One inspection: its name, time limit in seconds, collector, and the inspections it needs."""

    name: str
    limit_s: float
    collect: Callable[[Machine, PlannedJob], Iterator[tuple[type, InspectionResult[Any]]]]
    default: bool = True
    """Asked when the user names none."""
    needs: tuple[str, ...] = ()
    """Checks whose answers its risks need as well."""


def _inspection(module: ModuleType) -> Inspection:
    return Inspection(
        module.NAME, module.LIMIT_S, module.collect, getattr(module, "DEFAULT", True), getattr(module, "NEEDS", ())
    )


ALL_INSPECTIONS: tuple[Inspection, ...] = tuple(
    _inspection(module)
    for module in (
        collect_environment,
        collect_timers,
        collect_versions,
        collect_driver,
        collect_devices,
        collect_topology,
        configuration_files,
        collect_program,
        collect_limits,
        collect_storage,
        collect_network,
        collect_probe,
        collect_sameness,
    )
)


_WAITING = (collect_devices.NAME, collect_topology.NAME, collect_network.NAME)
"""They mostly wait for commands and are begun first. Storage is not among them: beside other work it measures that."""


def inspect_node(
    machine: Machine, plan: PlannedJob, checks: Sequence[Inspection], tell: Callable[[str], None] = lambda _: None
) -> tuple[NodeInspection, tuple[NotChecked, ...]]:
    """Ask every check, each within its limit; ``tell`` hears the name of the one at work.

    A check that does not come back (a dead mount, a hung driver) is left behind and said so: the second part lists
    checks that were cut off or broke.
    """
    results: dict[type, InspectionResult[Any]] = {}
    gaps: list[NotChecked] = []
    machine, plan = _followed(machine, plan, gaps)
    checks = _with_needed(checks)
    begun = {check.name: _asked(check, machine, plan) for check in checks if check.name in _WAITING}
    for check in checks:
        tell(check.name)
        work, found = begun.get(check.name) or _asked(check, machine, plan)
        gap = work.gap(check.limit_s)
        results.update(found.copy())
        if gap is not None:
            gaps.append(gap)
    return NodeInspection(machine.node, results=results), tuple(gaps)


def _with_needed(checks: Sequence[Inspection]) -> Sequence[Inspection]:
    needed = {name for check in checks for name in check.needs} - {check.name for check in checks}
    return [*(check for check in ALL_INSPECTIONS if check.name in needed), *checks]


def _join(thread: threading.Thread, limit_s: float) -> None:
    """In short waits: Python hears of a Ctrl-C that came just before a wait only when that wait is over."""
    until = time.monotonic() + limit_s
    while thread.is_alive() and (left_s := until - time.monotonic()) > 0:
        thread.join(min(left_s, INTERRUPT_POLL_S))


def _followed(machine: Machine, plan: PlannedJob, gaps: list[NotChecked]) -> tuple[Machine, PlannedJob]:
    """The job's machine and command; those that are given, and why, where following failed."""
    found: list[tuple[Machine, PlannedJob]] = []
    work = _Work(configuration_files.NAME, lambda: found.append(_for_job(*follow_command(machine, plan))))
    gap = work.gap(FOLLOW_LIMIT_S)
    gaps += [] if gap is None else [gap]
    return found[0] if found else (machine, plan)


def _for_job(machine: Machine, plan: PlannedJob) -> tuple[Machine, PlannedJob]:
    """Packages are asked of the interpreter that the command or the environment names; none of one that is absent."""
    folders = FolderListing(machine)
    installed = interpreter_of(folders, plan.command, machine.environment) if plan.command else InstalledPackages()
    missing = folders.names(machine.environment.get("CONDA_PREFIX", "/")) is None
    if missing or (installed.named and installed.folders):
        machine.site = () if missing else installed.folders
    return machine, plan


class _Work:
    """``work`` of the check ``name``, in a thread of its own, which may be left behind."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name, self.work = name, work
        self.trouble: list[Exception] = []
        self.thread = threading.Thread(target=self._guarded, name=f"unhang-check-{name}", daemon=True)
        self.thread.start()

    def _guarded(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - one broken question must not cost the others
            self.trouble.append(error)

    def gap(self, limit_s: float) -> NotChecked | None:
        """What is left open where the work does not come back within ``limit_s`` from now, or fails."""
        _join(self.thread, limit_s)
        what = say("The rest of the check {check}", check=self.name)
        if self.thread.is_alive():
            because = say("no answer within {seconds:.0f} s", seconds=limit_s)
            return NotChecked(what, because, f"unhang check --only {self.name}", check=self.name)
        if self.trouble:
            gap = NotChecked.after(self.trouble[0], what)
            return replace(gap, how=f"unhang check --only {self.name} --debug", check=self.name)
        return None


def _asked(check: Inspection, machine: Machine, plan: PlannedJob) -> tuple[_Work, dict[type, InspectionResult[Any]]]:
    """``check`` at work, and what it has found so far: what came before a cut-off or a mistake is kept."""
    found: dict[type, InspectionResult[Any]] = {}
    return _Work(check.name, lambda: found.update(check.collect(machine, plan))), found
